// Float rows to kQ8 and kQ8Wide (packed_layout.h). Uses the compiler's own vectors, which every instruction
// set has. Each operation is one IEEE operation on one element, so all of them give the same bytes. Vectors
// have four lanes, or 16 where a register has: compilers take larger ones than that apart, element by
// element.
//
// Where a vector has 16 lanes, 16 groups of kQ8 share vectors for their per-group values. Largest values and
// sums are in one vector, and divisions are made for all groups at once. Short rows gain most: 0.27 ns an
// element instead of 0.40 with 128 columns, 0.20 instead of 0.21 with 2,048 (labs/quantise_lab).
//
// Activations have a scale for each 32. If the weights have super-blocks, as K-quants, most IQ types and the
// types of one or two bits have, they have one for each 128. K-quants' scales and mins within a super-block
// are integers and precede its codes. So a block costs one multiply-add instead of three, and mins and zeros
// come from 16-bit products of sums. Products are 10 to 13 % faster. The KL divergence of Gemma 3 is then
// 0.0037, against 0.0023 with 32, 0.0028 with 64 (4 to 7 % slower), 0.0051 with 256 (2 % faster) and
// llama.cpp's 0.0053, which has 256.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/packed_layout.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace weft::cpu::WEFT_CPU_ISA {

inline constexpr int kGroupLanes = kLanes == 16 ? 16 : 4;
using GroupFloats = float __attribute__((vector_size(4 * kGroupLanes)));
using GroupWords = std::uint32_t __attribute__((vector_size(4 * kGroupLanes)));
using GroupInts = std::int32_t __attribute__((vector_size(4 * kGroupLanes)));
using Four = std::uint32_t __attribute__((vector_size(16)));
static_assert(kBlockColumns == 32);

static inline GroupWords words_of(GroupFloats a) {
  GroupWords words;
  __builtin_memcpy(&words, &a, sizeof(words));
  return words;
}
static inline GroupFloats floats_of(GroupWords a) {
  GroupFloats floats;
  __builtin_memcpy(&floats, &a, sizeof(floats));
  return floats;
}
static inline GroupFloats load_group(const float* x) {
  GroupFloats a;
  __builtin_memcpy(&a, x, sizeof(a));
  return a;
}

struct Larger {
  template <class V>
  static V of(V a, V b) {
    return a > b ? a : b;
  }
};
struct Sum {
  template <class V>
  static V of(V a, V b) {
    return a + b;
  }
};

/// What Op makes of all lanes.
template <class Op>
static inline std::uint32_t across(GroupWords a) {
  Four parts[kGroupLanes / 4];
  __builtin_memcpy(parts, &a, sizeof(parts));
#pragma GCC unroll 4
  for (int n = kGroupLanes / 4; n > 1; n /= 2)
#pragma GCC unroll 4
    for (int i = 0; i < n / 2; ++i) parts[i] = Op::of(parts[i], parts[i + n / 2]);
  Four four = parts[0];
  four = Op::of(four, __builtin_shufflevector(four, four, 2, 3, 0, 1));
  four = Op::of(four, __builtin_shufflevector(four, four, 1, 0, 3, 2));
  return four[0];
}

/// Groups whose largest value is below this are zero: its reciprocal must be finite.
static constexpr float kSmallestGroup = 1e-30f;

// q = round(x * 127 / max|x|), ties to even. Infinities and NaN make the group's scale non-finite, so that
// they are seen in the result; q is then anything.

/// The largest magnitudes of a group in each lane. Their bits are ordered as the numbers are, NaN above all.
template <int kColumns>
static inline GroupWords magnitudes(const float* x) {
  GroupWords most = words_of(load_group(x)) & 0x7fffffffu;
#pragma GCC unroll 32
  for (int i = kGroupLanes; i < kColumns; i += kGroupLanes)
    most = Larger::of(most, words_of(load_group(x + i)) & 0x7fffffffu);
  return most;
}

struct GroupScale {
  float scale;
  float inverse;
};
template <int kColumns>
static inline GroupScale scale_of(const float* x) {
  const std::uint32_t largest_bits = across<Larger>(magnitudes<kColumns>(x));
  float largest;
  __builtin_memcpy(&largest, &largest_bits, sizeof(largest));
  const bool zero = largest < kSmallestGroup;
  return {zero ? 0.0f : largest / 127.0f, zero ? 0.0f : 127.0f / largest};
}

/// The low bytes of 16 words.
static inline void put_bytes(const GroupWords (&words)[16 / kGroupLanes], std::int8_t* q) {
#if defined(__SSE2__)
  if constexpr (kGroupLanes == 4) {
    __m128i four[4];
    __builtin_memcpy(four, &words, sizeof(four));
    for (__m128i& word : four) word = _mm_and_si128(word, _mm_set1_epi32(255));
    const __m128i low = _mm_packs_epi32(four[0], four[1]), high = _mm_packs_epi32(four[2], four[3]);
    return _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm_packus_epi16(low, high));
  }
#endif
  using Bytes = std::int8_t __attribute__((vector_size(kGroupLanes)));
  for (int i = 0; i < 16 / kGroupLanes; ++i) {
    const Bytes bytes = __builtin_convertvector(words[i], Bytes);
    __builtin_memcpy(q + i * kGroupLanes, &bytes, sizeof(bytes));
  }
}

/// Half a block. Returns what q adds up to, in several lanes. (Unsigned, since words of a group that is not
/// finite may be anything.)
static inline GroupWords quantise_half(const float* x, float inverse, std::int8_t* q) {
  // Adding 1.5 * 2^23 rounds to an integer, which is then found in the low bits.
  constexpr float kRound = 0x1.8p23f;
  constexpr std::uint32_t kRoundBits = 0x4b400000;
  GroupWords words[16 / kGroupLanes], sum = {};
#pragma GCC unroll 4
  for (int i = 0; i < 16 / kGroupLanes; ++i) {
    words[i] = words_of(load_group(x + i * kGroupLanes) * inverse + kRound) - kRoundBits;
    sum += words[i];
  }
  put_bytes(words, q);
  return sum;
}

static inline void quantise_group(const float* x, Q8Group* out) {
  const auto [scale, inverse] = scale_of<kBlockColumns>(x);
  const std::uint32_t sum =
      across<Sum>(quantise_half(x, inverse, out->q) + quantise_half(x + 16, inverse, out->q + 16));
  out->scale = scale;
  out->scaled_sum = scale * static_cast<float>(static_cast<std::int32_t>(sum));
  out->offset = static_cast<std::int32_t>(-128u * sum);
}

static inline void quantise_group(const float* x, Q8Wide* out) {
  const auto [scale, inverse] = scale_of<kWideColumns>(x);
  for (int i = 0; i < 2 * kWideBlocks; ++i) {
    const std::uint32_t sum = across<Sum>(quantise_half(x + 16 * i, inverse, out->q + 16 * i));
    out->sums[i] = static_cast<std::int16_t>(static_cast<std::int32_t>(sum));
    out->offsets[i] = static_cast<std::int32_t>(-128u * sum);
  }
  for (int i = 0; i < kWideBlocks; ++i)
    out->block_sums[i] = static_cast<std::int16_t>(out->sums[2 * i] + out->sums[2 * i + 1]);
  out->scale = scale;
}

/// For 16 vectors of 16 lanes, the result of Op over the lanes of each: lane i is for v[i]. A step joins the
/// halves of two vectors in one, and halves the rest of each.
template <class Op, class Words>
static inline Words across_16(Words (&v)[16]) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const Words a = v[i], b = v[i + 8];
    v[i] =
        Op::of(__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
               __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Words a = v[i], b = v[i + 4];
    v[i] = Op::of(__builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),
                  __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const Words a = v[i], b = v[i + 2];
    v[i] = Op::of(__builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
                  __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31));
  }
  const Words a = v[0], b = v[1];
  return Op::of(__builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),
                __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31));
}

/// quantise_group for 16 of them.
template <class Words, class Floats>
static void quantise_16_groups(const float* const (&x)[16], Q8Group* const (&out)[16]) {
  Words v[16];
#pragma GCC unroll 16
  for (int g = 0; g < 16; ++g) v[g] = magnitudes<kBlockColumns>(x[g]);
  const Floats largest = floats_of(across_16<Larger>(v)), none = {};
  const auto zero = largest < none + kSmallestGroup;
  const Floats scale = zero ? none : largest / 127.0f, inverse = zero ? none : 127.0f / largest;
#pragma GCC unroll 16
  for (int g = 0; g < 16; ++g)
    v[g] = quantise_half(x[g], inverse[g], out[g]->q) + quantise_half(x[g] + 16, inverse[g], out[g]->q + 16);
  const Words sum = across_16<Sum>(v), offset = sum * -128u;
  const Floats scaled_sum = scale * __builtin_convertvector(reinterpret_cast<GroupInts>(sum), Floats);
  for (int g = 0; g < 16; ++g) {
    out[g]->scale = scale[g];
    out[g]->scaled_sum = scaled_sum[g];
    out[g]->offset = static_cast<std::int32_t>(offset[g]);
  }
}

/// The n columns after the last whole group.
template <class Group, int kColumns>
static void quantise_rest(const float* x, std::int64_t n, Group* group) {
  float values[kColumns] = {};
  for (std::int64_t i = 0; i < n; ++i) values[i] = x[i];
  quantise_group(values, group);
}

template <class Group, int kColumns, class Row>
static void quantise_groups(std::int64_t n_rows, std::int64_t n, const Row& row) {
  const float* from[16];
  Group* to[16];
  int n_waiting = 0;
  const auto finish = [&] {
    for (int i = 0; i < n_waiting; ++i) quantise_group(from[i], to[i]);
    n_waiting = 0;
  };
  for (std::int64_t r = 0; r < n_rows; ++r) {
    auto [x, out] = row(r);
    auto* group = reinterpret_cast<Group*>(out);
    std::int64_t left = n;
    for (; left >= kColumns; left -= kColumns, x += kColumns, ++group) {
      from[n_waiting] = x;
      to[n_waiting++] = group;
      if (n_waiting < 16) continue;
      if constexpr (kGroupLanes == 16 && kColumns == kBlockColumns) {
        quantise_16_groups<GroupWords, GroupFloats>(from, to);
        n_waiting = 0;
      } else {
        finish();
      }
    }
    if (left > 0) quantise_rest<Group, kColumns>(x, left, group);
  }
  finish();
}

static void quantise_rows(const QuantiseArgs& args, std::int64_t n_rows) {
  struct Row {
    const float* x;
    std::byte* out;
  };
  const auto row = [&](std::int64_t r) {
    const std::int64_t at = args.rows != nullptr ? args.rows[r] : r;
    return Row{args.x + at * args.x_stride, args.out + at * args.out_stride};
  };
  if (args.form == Form::kQ8) quantise_groups<Q8Group, kBlockColumns>(n_rows, args.n, row);
  if (args.form == Form::kQ8Wide) quantise_groups<Q8Wide, kWideColumns>(n_rows, args.n, row);
}

static void quantise_row(Form form, const float* x, std::int64_t n, std::byte* out) {
  quantise_rows({.form = form, .x = x, .n = n, .out = out}, 1);
}

}  // namespace weft::cpu::WEFT_CPU_ISA
