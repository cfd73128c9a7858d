// Compares smaller panels of the IQ types with today's panels. Today's panels hold levels of the grids, which
// are looked up when a model is loaded. Unpacking is shifts, masks and one shuffle; they take 3.19 to 4.19
// bits per weight. Smaller panels hold the file's indices into the grids and signs, and look up the grids
// during the product. That takes two vpermi2b for 256 entries, and mask registers for the signs. A vector of
// indices is 16 rows x 4 entries. The looked-up value t of each entry is multiplied with every fourth (or
// eighth) activation; these activations are gathered once per group.
//
//   iq_lab
//
// It measures one thread of a processor with AVX-512 VBMI, with one column and with eight, from the
// second-level cache and from memory. The unit is 10^9 weights per second of CPU time. Each form's sums are
// compared with sums of its unpacked values first.
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c,fma,avx2")
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "tensor/codec_grids.h"

namespace {

namespace codec = weft::codec;

constexpr int kRows = 16, kBlocks = 8, kGroup = 128;
constexpr int kHeader = 96;  // Bytes per super-block: 16 factors as halves, scales of four bits.

double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Group {
  std::int8_t q[kGroup];
  float scale;
};

__m512i load(const void* p) { return _mm512_loadu_si512(p); }
__mmask64 mask_at(const std::uint8_t* p) {
  std::uint64_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return _cvtu64_mask64(bits);
}
__m512i bytes(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }

__m512i dot4(__m512i sum, __m512i codes, const std::int8_t* q) {
  struct Four {
    std::int8_t q[4];
  };
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*reinterpret_cast<const Four*>(q)));
  return sum;
}

/// A table of 256 bytes. Keeping tables in registers, as a kernel of one column could, gains nothing.
struct Table256 {
  alignas(64) std::uint8_t of[256];
};
inline __m512i look_up(const Table256& t, __m512i index, __mmask64 high) {
  return _mm512_mask_blend_epi8(high, _mm512_permutex2var_epi8(load(t.of), index, load(t.of + 64)),
                                _mm512_permutex2var_epi8(load(t.of + 128), index, load(t.of + 192)));
}
inline __m512i with_signs(__m512i codes, const std::uint8_t* signs, __m512i twice_zero) {
  return _mm512_mask_sub_epi8(codes, mask_at(signs), twice_zero, codes);
}

// Each form defines the bytes of a block of 32 columns, the order of a group's activations, and the codes of
// half a block.

/// Today's: pairs of bits, a plane of signs, a table.
struct Levels2 {
  static constexpr const char* kName = "IQ2 levels ";
  static constexpr int kBytes = 192, kTurn = 1;
  template <int kHalf>
  static void codes(const std::uint8_t* p, __m512i (&c)[4]) {
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(-120, -103, -85, -128, 120, 103, 85, -128, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i pairs = load(p + 64 * kHalf), signs = load(p + 128);
    const auto one = [&](__m512i low, __m512i high) {
      const __m512i level = _mm512_and_si512(low, bytes(3));
      return _mm512_shuffle_epi8(table, _mm512_ternarylogic_epi64(level, high, bytes(4), 0xf8));
    };
    if constexpr (kHalf == 0) {
      c[0] = one(pairs, _mm512_slli_epi16(signs, 2));
      c[1] = one(_mm512_srli_epi16(pairs, 2), _mm512_slli_epi16(signs, 1));
      c[2] = one(_mm512_srli_epi16(pairs, 4), signs);
      c[3] = one(_mm512_srli_epi16(pairs, 6), _mm512_srli_epi16(signs, 1));
    } else {
      c[0] = one(pairs, _mm512_srli_epi16(signs, 2));
      c[1] = one(_mm512_srli_epi16(pairs, 2), _mm512_srli_epi16(signs, 3));
      c[2] = one(_mm512_srli_epi16(pairs, 4), _mm512_srli_epi16(signs, 4));
      c[3] = one(_mm512_srli_epi16(pairs, 6), _mm512_srli_epi16(signs, 5));
    }
  }
};
/// Today's: nibbles, a table.
struct Levels3 {
  static constexpr const char* kName = "IQ3 levels ";
  static constexpr int kBytes = 256, kTurn = 1;
  template <int kHalf>
  static void codes(const std::uint8_t* p, __m512i (&c)[4]) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(34, 38, 42, 46, 50, 54, 58, 63, 30, 26, 22, 18, 14, 10, 6, 1));
    for (int j = 0; j < 4; ++j) {
      const __m512i both = load(p + 64 * j);
      c[j] =
          _mm512_shuffle_epi8(table, _mm512_and_si512(kHalf ? _mm512_srli_epi16(both, 4) : both, bytes(15)));
    }
  }
};
/// Indices of eight bits, a table of bytes for each of the entry's four values.
struct Grid3XXS {
  static constexpr const char* kName = "IQ3_XXS grid";
  static constexpr int kBytes = 192, kTurn = 4, kTables = 4;
  static Table256 tables[kTables];
  static void fill() {
    for (std::size_t e = 0; e < 256; ++e)
      for (int t = 0; t < 4; ++t) {
        const int level = codec::level3(codec::kIQ3XXSGrid[e], t);
        tables[t].of[e] =
            static_cast<std::uint8_t>(64 + codec::kIQ3XXSLevels[static_cast<std::size_t>(level)]);
      }
  }
  template <int kHalf>
  static void codes(const std::uint8_t* p, __m512i (&c)[4]) {
    p += 96 * kHalf;
    const __m512i index = load(p);
    const __mmask64 high = _mm512_movepi8_mask(index);
    for (int t = 0; t < 4; ++t)
      c[t] = with_signs(look_up(tables[t], index, high), p + 64 + 8 * t, bytes(128));
  }
};
Table256 Grid3XXS::tables[kTables];
/// Indices of nine bits; two values are nibbles of a byte.
struct Grid3S {
  static constexpr const char* kName = "IQ3_S grid  ";
  static constexpr int kBytes = 208, kTurn = 4, kTables = 4;
  // For the first two values: entries below 256, then above. Then for the other two.
  static Table256 tables[kTables];
  static void fill() {
    for (std::size_t e = 0; e < 512; ++e)
      for (int t = 0; t < 4; t += 2) {
        const int a = codec::level3(codec::kIQ3SGrid[e], t), b = codec::level3(codec::kIQ3SGrid[e], t + 1);
        tables[t / 2 * 2 + static_cast<int>(e / 256)].of[e % 256] =
            static_cast<std::uint8_t>((2 * a + 1) | (2 * b + 1) << 4);
      }
  }
  template <int kHalf>
  static void codes(const std::uint8_t* p, __m512i (&c)[4]) {
    p += 104 * kHalf;
    const __m512i index = load(p);
    const __mmask64 high = _mm512_movepi8_mask(index), ninth = mask_at(p + 96);
    for (int t = 0; t < 2; ++t) {
      const __m512i both = _mm512_mask_blend_epi8(ninth, look_up(tables[2 * t], index, high),
                                                  look_up(tables[2 * t + 1], index, high));
      const auto nibble = [&](__m512i v) {  // (v & 15) | 16
        return _mm512_ternarylogic_epi64(v, bytes(15), bytes(16), 0xea);
      };
      c[2 * t] = with_signs(nibble(both), p + 64 + 16 * t, bytes(32));
      c[2 * t + 1] = with_signs(nibble(_mm512_srli_epi16(both, 4)), p + 72 + 16 * t, bytes(32));
    }
  }
};
Table256 Grid3S::tables[kTables];
/// Indices of eight bits; four levels are pairs of bits of a byte.
struct Grid2XXS {
  static constexpr const char* kName = "IQ2_XXS grid";
  static constexpr int kBytes = 128, kTurn = 8, kTables = 2;
  static Table256 tables[kTables];
  static void fill() {
    for (std::size_t e = 0; e < 256; ++e)
      for (int h = 0; h < 2; ++h)
        tables[h].of[e] = static_cast<std::uint8_t>(codec::kIQ2XXSGrid[e] >> (8 * h) & 255);
  }
  template <int kHalf>
  static void codes(const std::uint8_t* p, __m512i (&c)[4]) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(-120, -103, -85, -128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i index = load(p);
    const __m512i four = look_up(tables[kHalf], index, _mm512_movepi8_mask(index));
    const std::uint8_t* const signs = p + 64 + 32 * kHalf;
    const __m512i zero = _mm512_setzero_si512();
    const auto one = [&](__m512i v) { return _mm512_shuffle_epi8(table, _mm512_and_si512(v, bytes(3))); };
    c[0] = with_signs(one(four), signs, zero);
    c[1] = with_signs(one(_mm512_srli_epi16(four, 2)), signs + 8, zero);
    c[2] = with_signs(one(_mm512_srli_epi16(four, 4)), signs + 16, zero);
    c[3] = with_signs(one(_mm512_srli_epi16(four, 6)), signs + 24, zero);
  }
};
Table256 Grid2XXS::tables[kTables];
/// Likewise, a table of bytes for each of the entry's eight values.
struct Wide2XXS {
  static constexpr const char* kName = "IQ2_XXS wide";
  static constexpr int kBytes = 128, kTurn = 8, kTables = 8;
  static Table256 tables[kTables];
  static void fill() {
    for (std::size_t e = 0; e < 256; ++e)
      for (int t = 0; t < 8; ++t) {
        const int level = codec::level2(codec::kIQ2XXSGrid[e], t);
        tables[t].of[e] = static_cast<std::uint8_t>(128 + codec::kIQ2Levels[static_cast<std::size_t>(level)]);
      }
  }
  template <int kHalf>
  static void codes(const std::uint8_t* p, __m512i (&c)[4]) {
    const __m512i index = load(p);
    const __mmask64 high = _mm512_movepi8_mask(index);
    for (int t = 0; t < 4; ++t)
      c[t] = with_signs(look_up(tables[4 * kHalf + t], index, high), p + 64 + 32 * kHalf + 8 * t,
                        _mm512_setzero_si512());
  }
};
Table256 Wide2XXS::tables[kTables];

/// Which of a block's 32 columns the byte i of the activations is multiplied with.
template <class Form>
constexpr int column_of(int i) {
  if (Form::kTurn == 4) return i / 16 * 16 + i % 4 * 4 + i / 4 % 4;
  if (Form::kTurn == 8) return i % 4 * 8 + i / 4;
  return i;
}

template <class Form>
inline void turn(const std::int8_t* q, std::int8_t* to) {
  alignas(64) static const auto order = [] {
    struct {
      std::uint8_t of[64];
    } made;
    for (int i = 0; i < 64; ++i)
      made.of[i] = static_cast<std::uint8_t>(i / 32 * 32 + column_of<Form>(i % 32));
    return made;
  }();
  for (int i = 0; i < kGroup; i += 64)
    _mm512_store_si512(to + i, _mm512_permutexvar_epi8(load(order.of), load(q + i)));
}

template <class Form, int kColumns>
__attribute__((noinline)) void multiply(const std::uint8_t* panel, int n_super_blocks, const Group* const* x,
                                        float* out) {
  __m512 total[kColumns];
  for (__m512& t : total) t = _mm512_setzero_ps();
  alignas(64) std::int8_t turned[Form::kTurn == 1 ? 1 : kColumns][kGroup];
  for (int s = 0; s < n_super_blocks; ++s) {
    const __m512 d = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel)));
    alignas(64) std::uint8_t scales[128];
    const __m512i both = load(panel + 32);
    _mm512_store_si512(scales,
                       _mm512_ternarylogic_epi64(bytes(1), _mm512_slli_epi16(both, 1), bytes(30), 0xf8));
    _mm512_store_si512(scales + 64,
                       _mm512_ternarylogic_epi64(bytes(1), _mm512_srli_epi16(both, 3), bytes(30), 0xf8));
    panel += kHeader;
    for (int g = 0; g < 2; ++g) {
      __m512 part[kColumns];
      const std::int8_t* q[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        part[c] = _mm512_setzero_ps();
        q[c] = x[c][2 * s + g].q;
        if constexpr (Form::kTurn > 1) {
          turn<Form>(q[c], turned[c]);
          q[c] = turned[c];
        }
      }
#pragma GCC unroll 1
      for (int b = 0; b < 4; ++b) {
        if constexpr (kColumns > 1)
          for (int line = 0; line < Form::kBytes; line += 64) __builtin_prefetch(panel + 8192 + line, 0, 2);
        __m512i sums[kColumns], codes[4];
        for (__m512i& sum : sums) sum = _mm512_setzero_si512();
        const auto add = [&]<int kHalf>() {
          Form::template codes<kHalf>(panel, codes);
#pragma GCC unroll 8
          for (int c = 0; c < kColumns; ++c)
#pragma GCC unroll 4
            for (int t = 0; t < 4; ++t) sums[c] = dot4(sums[c], codes[t], q[c] + 32 * b + 16 * kHalf + 4 * t);
        };
        add.template operator()<0>();
        add.template operator()<1>();
        const __m512 scale = _mm512_cvtepi32_ps(
            _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(scales + 64 * g + 16 * b))));
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c)
          part[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[c]), scale, part[c]);
        panel += Form::kBytes;
      }
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c)
        total[c] =
            _mm512_fmadd_ps(_mm512_mul_ps(part[c], d), _mm512_set1_ps(x[c][2 * s + g].scale), total[c]);
    }
  }
  for (int c = 0; c < kColumns; ++c) _mm512_storeu_ps(out + 16 * c, total[c]);
}

/// The form's own codes, one by one, are what its sums must be made of.
template <class Form>
void check() {
  std::vector<std::uint8_t> panel(kHeader + kBlocks * Form::kBytes);
  for (std::uint8_t& b : panel) b = static_cast<std::uint8_t>(std::rand());
  for (int r = 0; r < kRows; ++r) panel[2 * r] = 0, panel[2 * r + 1] = 0x3c;
  Group groups[2];
  for (Group& g : groups) {
    for (std::int8_t& q : g.q) q = static_cast<std::int8_t>(std::rand() % 255 - 127);
    g.scale = 1.0f;
  }
  const Group* const x = groups;
  float out[16];
  multiply<Form, 1>(panel.data(), 1, &x, out);
  for (int r = 0; r < kRows; ++r) {
    double sum = 0.0;
    for (int b = 0; b < kBlocks; ++b) {
      const int scale = 2 * (panel[32 + b % 4 * 16 + r] >> (b / 4 * 4) & 15) + 1;
      long block = 0;
      alignas(64) std::uint8_t codes[2][4][64];
      __m512i c[4];
      Form::template codes<0>(panel.data() + kHeader + b * Form::kBytes, c);
      for (int t = 0; t < 4; ++t) _mm512_store_si512(codes[0][t], c[t]);
      Form::template codes<1>(panel.data() + kHeader + b * Form::kBytes, c);
      for (int t = 0; t < 4; ++t) _mm512_store_si512(codes[1][t], c[t]);
      for (int i = 0; i < 32; ++i)
        block += codes[i / 16][i / 4 % 4][r * 4 + i % 4] * groups[b / 4].q[b % 4 * 32 + column_of<Form>(i)];
      sum += scale * static_cast<double>(block);
    }
    if (std::abs(sum - static_cast<double>(out[r])) > 1e-4 * std::abs(sum) + 16.0) {
      std::printf("%s row %d: %f, not %f\n", Form::kName, r, static_cast<double>(out[r]), sum);
      std::exit(1);
    }
  }
}

template <class Form, int kColumns>
double speed(std::size_t bytes) {
  constexpr int kSuper = 8;
  constexpr std::size_t kPanel = kSuper * (kHeader + kBlocks * Form::kBytes);
  const std::size_t n = bytes / kPanel;
  static std::vector<std::uint8_t> memory;
  memory.resize(n * kPanel + 16384);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::uint8_t>(i * 131 + i / 251);
  std::vector<Group> groups(static_cast<std::size_t>(kColumns) * 2 * kSuper);
  for (Group& g : groups) {
    for (std::int8_t& q : g.q) q = static_cast<std::int8_t>(std::rand() % 255 - 127);
    g.scale = 1.0f;
  }
  const Group* x[kColumns];
  for (int c = 0; c < kColumns; ++c) x[c] = &groups[static_cast<std::size_t>(c) * 2 * kSuper];
  float out[16 * kColumns];
  const int passes = std::max(1, static_cast<int>((std::size_t{24} << 20) / bytes));
  double best = 1e9;
  for (int r = 0; r < 7; ++r) {
    const double begin = now();
    for (int i = 0; i < passes; ++i)
      for (std::size_t p = 0; p < n; ++p)
        multiply<Form, kColumns>(memory.data() + p * kPanel, kSuper, x, out);
    best = std::min(best, now() - begin);
  }
  return static_cast<double>(n) * passes * kSuper * 4096.0 * kColumns / best * 1e-9;
}

template <class Form>
void measure() {
  check<Form>();
  std::printf("%s %.2f bits: from cache %5.1f, of eight columns %5.1f; from memory %5.1f\n", Form::kName,
              (kHeader + kBlocks * Form::kBytes) * 8 / 4096.0, speed<Form, 1>(std::size_t{384} << 10),
              speed<Form, 8>(std::size_t{384} << 10), speed<Form, 1>(std::size_t{128} << 20));
  std::fflush(stdout);
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx512vbmi") || !__builtin_cpu_supports("avx512vnni")) {
    std::puts("this machine has no AVX-512 VBMI");
    return 0;
  }
  Grid3XXS::fill();
  Grid3S::fill();
  Grid2XXS::fill();
  Wide2XXS::fill();
  measure<Levels3>();
  measure<Grid3XXS>();
  measure<Grid3S>();
  measure<Levels2>();
  measure<Grid2XXS>();
  measure<Wide2XXS>();
}
#else
#include <cstdio>
int main() { std::puts("these panels are for AVX-512 VBMI"); }
#endif
