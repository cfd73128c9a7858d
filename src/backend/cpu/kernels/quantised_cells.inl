#pragma once
// Quantised cells of a page as floats: code * scale + min, with the bits of the scalar codec. A code times a
// scale is exact in float32, so the offset of codes may be part of the minimum. Needs cache_cells.inl.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/kernels/cache_cells.inl"
#include "backend/cpu/layout/packed_layout.h"

namespace weft::cpu::WEFT_CPU_ISA::attend {

using Codes = std::int32_t __attribute__((vector_size(4 * kLanes)));

#if !defined(__AVX2__)
/// Each of four bytes in all bytes of its lane.
static inline Codes repeat_bytes(const void* p) {
  static_assert(kLanes == 4);
  std::uint32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  using Bytes = std::uint8_t __attribute__((vector_size(16)));
  using Pairs = std::uint16_t __attribute__((vector_size(16)));
  const auto bytes = reinterpret_cast<Bytes>(FloatBits{four, 0, 0, 0});
  const auto twice = reinterpret_cast<Pairs>(
      __builtin_shufflevector(bytes, bytes, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7));
  return reinterpret_cast<Codes>(__builtin_shufflevector(twice, twice, 0, 0, 1, 1, 2, 2, 3, 3));
}
#endif

/// kLanes numbers as int32. g++ 12 takes conversions of vectors apart and puts them together again.
static inline Codes load_codes(const std::uint8_t* p) {
#if defined(__AVX512F__)
  return reinterpret_cast<Codes>(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__)
  return reinterpret_cast<Codes>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  return reinterpret_cast<Codes>(reinterpret_cast<FloatBits>(repeat_bytes(p)) >> 24);
#endif
}
static inline Codes load_codes(const std::int8_t* p) {
#if defined(__AVX512F__)
  return reinterpret_cast<Codes>(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__)
  return reinterpret_cast<Codes>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  return repeat_bytes(p) >> 24;
#endif
}
static inline Codes load_codes(const std::uint16_t* p) {
#if defined(__AVX512F__)
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return reinterpret_cast<Codes>(_mm512_cvtepu16_epi32(words));
#else
  HalfBits words;
  __builtin_memcpy(&words, p, sizeof(words));
  return __builtin_convertvector(words, Codes);
#endif
}

static inline F32 to_floats(Codes codes) {
#if defined(__AVX512F__)
  return _mm512_cvtepi32_ps(reinterpret_cast<__m512i>(codes));
#else
  return __builtin_convertvector(codes, F32);
#endif
}

/// The values of IQ4_NL's codes.
inline constexpr struct IQ4Values {
  constexpr IQ4Values() {
    for (int i = 0; i < 16; ++i) of[i] = static_cast<float>(kIQ4Table.of[i]) - 128.0f;
  }
  float of[16] = {};
} kIQ4Values;

/// The same for codes from 0 to 15.
static inline F32 iq4_to_floats(Codes codes) {
#if defined(__AVX512F__)
  return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(codes), load(kIQ4Values.of));
#elif defined(__AVX2__)
  const __m256i index = reinterpret_cast<__m256i>(codes);
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(load(kIQ4Values.of), index),
                          _mm256_permutevar8x32_ps(load(kIQ4Values.of + 8), index),
                          _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
#else
  float values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = kIQ4Values.of[codes[i]];
  return load(values);
#endif
}

template <DType kType>
struct QuantisedUnits {
  static constexpr int kPerUnit = cache_unit_dims(kType);
  static constexpr int kUnits = kCacheBlock / kPerUnit;  ///< Of a block.
  static constexpr int kWords = cache_block_words(kType);
  static constexpr bool kHasFifth = has_cache_fifth_bits(kType);
  static constexpr int kFifthWord = has_cache_min(kType) ? 2 : 1;
  static constexpr int kOffset = kType == DType::kQ4_0 ? 8 : kType == DType::kQ5_0 ? 16 : 0;
  static constexpr bool kHasMin = has_cache_min(kType) || kOffset != 0;
  using Byte = std::conditional_t<kPerUnit == 1, std::int8_t, std::uint8_t>;

  /// Codes number kPart of kLanes units, without fifth bits.
  template <int kPart>
  static Codes codes(const Byte* units) {
    const Codes bytes = load_codes(units);
    if constexpr (kPerUnit == 1) return bytes;
    return kPart == 0 ? bytes & 15 : bytes >> 4;
  }
  static F32 floats(Codes codes) {
    if constexpr (kType == DType::kIQ4_NL) return iq4_to_floats(codes);
    return to_floats(codes);
  }
  /// What is added to code * scale. `stored` returns the stored minimum.
  template <class F>
  static F32 min(F32 scale, F stored) {
    if constexpr (kOffset != 0) return scale * broadcast(static_cast<float>(-kOffset));
    if constexpr (has_cache_min(kType)) return stored();
    return zero();
  }
  static F32 value(F32 code, F32 scale, F32 min) {
    if constexpr (kHasMin) return fma(code, scale, min);
    return code * scale;
  }
};

template <class F>
static inline void with_units(DType type, F f) {
  if (type == DType::kQ8_0) return f(QuantisedUnits<DType::kQ8_0>{});
  if (type == DType::kQ4_1) return f(QuantisedUnits<DType::kQ4_1>{});
  if (type == DType::kQ5_0) return f(QuantisedUnits<DType::kQ5_0>{});
  if (type == DType::kQ5_1) return f(QuantisedUnits<DType::kQ5_1>{});
  if (type == DType::kIQ4_NL) return f(QuantisedUnits<DType::kIQ4_NL>{});
  f(QuantisedUnits<DType::kQ4_0>{});
}

/// The words of one head's part of a page, after its units.
template <class Units>
static inline const std::uint16_t* words_of(const std::byte* head, int dim) {
  return reinterpret_cast<const std::uint16_t*>(head + static_cast<std::ptrdiff_t>(kPageCells) * dim /
                                                           Units::kPerUnit);
}

/// Dims number kPart of all units of a block, for 16 keys.
template <class Units, int kPart>
static inline void block_to_floats(const typename Units::Byte* units, const std::uint16_t* words,
                                   std::ptrdiff_t ahead, float* to) {
  constexpr int kVectors = kKeys / kLanes;
  F32 scales[kVectors], mins[kVectors];
  Codes fifth[kVectors] = {};
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    scales[v] = load_f16(words + v * kLanes);
    mins[v] = Units::min(scales[v], [&] { return load_f16(words + kKeys + v * kLanes); });
    if constexpr (Units::kHasFifth)
      fifth[v] = load_codes(words + (Units::kFifthWord + kPart) * kKeys + v * kLanes) << 4;
  }
  for (int u = 0; u < Units::kUnits; u += 4, units += 4 * kKeys, to += 4 * kKeys) {
    if constexpr (kPart == 0) prefetch(units, ahead);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Codes codes = Units::template codes<kPart>(units + i * kKeys + v * kLanes);
        if constexpr (Units::kHasFifth) {
          codes |= fifth[v] & 16;
          fifth[v] >>= 1;
        }
        store(to + i * kKeys + v * kLanes, Units::value(Units::floats(codes), scales[v], mins[v]));
      }
    }
  }
}

/// K of one head of a page, as F32Cells would hold it: [4 groups][dim][16 keys].
template <class Units>
static void quantised_keys_to_floats(const std::byte* head, std::ptrdiff_t ahead, int dim, float* to) {
  const auto* units = reinterpret_cast<const typename Units::Byte*>(head);
  const std::uint16_t* words = words_of<Units>(head, dim);
  for (int block = 0; block < kPageCells / kKeys * (dim / kCacheBlock); ++block) {
    prefetch(words, ahead);
    block_to_floats<Units, 0>(units, words, ahead, to);
    if constexpr (Units::kPerUnit == 2)
      block_to_floats<Units, 1>(units, words, ahead, to + Units::kUnits * kKeys);
    units += Units::kUnits * kKeys;
    words += Units::kWords * kKeys;
    to += kCacheBlock * kKeys;
  }
}

/// V of one head of a page.
template <class Units>
class QuantisedValues {
 public:
  /// `floats` takes all words of the head's part.
  QuantisedValues(const std::byte* head, std::ptrdiff_t ahead, int dim, float* floats)
      : units_(reinterpret_cast<const typename Units::Byte*>(head)),
        words_(words_of<Units>(head, dim)),
        floats_(floats),
        ahead_(ahead),
        n_blocks_(dim / kCacheBlock) {
    const int n = kPageCells * n_blocks_ * Units::kWords;
    for (int i = 0; i < n; i += kLanes) store(floats + i, load_f16(words_ + i));
    prefetch_head(reinterpret_cast<const std::byte*>(words_), sizeof(words_[0]) * static_cast<std::size_t>(n),
                  ahead);
  }

  /// One cell: dim floats.
  void to_floats(int cell, float* to) const {
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(cell) * n_blocks_;
    const auto* units = units_ + first * Units::kUnits;
    for (std::ptrdiff_t block = first; block < first + n_blocks_; ++block, units += Units::kUnits) {
      const std::ptrdiff_t at = block * Units::kWords;
      const F32 scale = broadcast(floats_[at]);
      const F32 min = Units::min(scale, [&] { return broadcast(floats_[at + 1]); });
      prefetch(units, ahead_);
      half_to_floats<0>(units, words_ + at, scale, min, to);
      half_to_floats<1>(units + kHalf * (2 - Units::kPerUnit), words_ + at, scale, min, to + kHalf);
      to += kCacheBlock;
    }
  }

 private:
  static constexpr int kHalf = kCacheBlock / 2;
  static_assert(kHalf % kLanes == 0);

  template <int kPart>
  static void half_to_floats(const typename Units::Byte* units, const std::uint16_t* words, F32 scale,
                             F32 min, float* to) {
#pragma GCC unroll 4
    for (int i = 0; i < kHalf; i += kLanes) {
      F32 code = Units::floats(Units::template codes<kPart>(units + i));
      if constexpr (Units::kHasFifth)
        code = code + select_bits(words[Units::kFifthWord + kPart] >> i, broadcast(16.0f), zero());
      store(to + i, Units::value(code, scale, min));
    }
  }

  const typename Units::Byte* units_;
  const std::uint16_t* words_;
  const float* floats_;
  std::ptrdiff_t ahead_;
  int n_blocks_;
};

}  // namespace weft::cpu::WEFT_CPU_ISA::attend
