#pragma once
// As packed_source.h, of the types of one to three bits and of NVFP4. For the IQ types, codes are levels of
// the grid, with a bit above them for negative values. Scales are the s of 2 s + 1.
#include "backend/cpu/layout/packed_source.h"
#include "base/to_size.h"
#include "tensor/codec_grids.h"

namespace weft::cpu {

/// Four bits as a bit of each of four bytes.
inline std::uint32_t spread_bits(int four, int shift) {
  return (static_cast<std::uint32_t>(four & 15) * 0x00204081u & 0x01010101u) << shift;
}
/// Puts the eight levels of an entry of two bits each, and signs, into two words.
inline void put_eight(std::uint16_t entry, int signs, std::uint32_t* words) {
  for (int half = 0; half < 2; ++half) {
    std::uint32_t word = spread_bits(signs >> (4 * half), 2);
    for (int i = 0; i < 4; ++i)
      word |= static_cast<std::uint32_t>(codec::level2(entry, 4 * half + i)) << (8 * i);
    words[half] = word;
  }
}
/// Puts the four levels of an entry of three bits each, and signs, into a word.
inline std::uint32_t four_levels(std::uint16_t entry, int signs) {
  std::uint32_t word = spread_bits(signs, 3);
  for (int i = 0; i < 4; ++i) word |= static_cast<std::uint32_t>(codec::level3(entry, i)) << (8 * i);
  return word;
}
inline int nibble_at(const std::byte* p, int i) { return int_at(p + i / 2) >> (i % 2 * 4) & 15; }

template <>
struct Source<DType::kNVFP4> {
  static constexpr int kBytes = 36, kParts = 2;
  static Words codes(const std::byte* b, int part) {
    Words words;
    for (int j = 0; j < 8; ++j) {  // Four words for 16 columns: low nibbles of two, then their high ones.
      const std::uint32_t both = word_at(b + 4 + 16 * part + j / 4 * 8 + j % 2 * 4);
      words[to_size(j)] = both >> (j / 2 % 2 * 4) & 0x0f0f0f0fu;
    }
    return words;
  }
  static int scale(int code) { return code == 0x7f ? 0 : code & 0x7f; }  // One code is zero as well.
  static Scales scales(const std::byte* b, int part) {
    return {.scale = {scale(int_at(b + 2 * part)), scale(int_at(b + 2 * part + 1))}};
  }
};

template <>
struct Source<DType::kQ1_0> {
  static constexpr int kBytes = 18, kParts = 4;
  static Words codes(const std::byte* b, int part) {
    Words words;
    const std::uint32_t bits = word_at(b + 2 + 4 * part);
    for (int j = 0; j < 8; ++j) words[to_size(j)] = spread_bits(static_cast<int>(bits >> (4 * j) & 15u), 0);
    return words;
  }
  static Scales scales(const std::byte*, int) { return {}; }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b)}; }
};

template <>
struct Source<DType::kTQ1_0> {
  static constexpr int kBytes = 54, kParts = 8;
  /// Digits to the base 3, five in a byte: 32 bytes for columns 0..159, 16 for 160..239, then 4 with four.
  static int code(const std::byte* b, int column) {
    constexpr int kPowers[] = {1, 3, 9, 27, 81};
    const bool first = column < 160, second = column < 240;
    const int n = first ? 32 : second ? 16 : 4, begin = first ? 0 : second ? 160 : 240;
    const std::byte* const bytes = b + (first ? 0 : second ? 32 : 48);
    const int digit = (column - begin) / n;
    return (int_at(bytes + (column - begin) % n) * kPowers[digit] & 255) * 3 >> 8;
  }
  static Words codes(const std::byte* b, int part) {
    Words words = {};
    for (int i = 0; i < 32; ++i)
      words[to_size(i / 4)] |= static_cast<std::uint32_t>(code(b, 32 * part + i)) << (i % 4 * 8);
    return words;
  }
  static Scales scales(const std::byte*, int) { return {}; }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b + 52)}; }
};

template <>
struct Source<DType::kTQ2_0> {
  static constexpr int kBytes = 66, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    return bits_of_bytes(b + 32 * (part / 4), 2 * (part % 4), 0x03030303u);
  }
  static Scales scales(const std::byte*, int) { return {}; }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b + 64)}; }
};

template <>
struct Source<DType::kIQ1_S> {
  static constexpr int kBytes = 50, kParts = 8;
  static int high(const std::byte* b, int part) { return half_bits_at(b + 34 + 2 * part); }
  static Words codes(const std::byte* b, int part) {
    Words words;
    const int bits = high(b, part);
    for (int g = 0; g < 4; ++g) {
      const int entry = int_at(b + 2 + 4 * part + g) | (bits >> (3 * g) & 7) << 8;
      put_eight(codec::kIQ1Grid[to_size(entry)], bits >> 15 != 0 ? 0xff : 0, &words[2 * g]);
    }
    return words;
  }
  static Scales scales(const std::byte* b, int part) { return {.scale = {high(b, part) >> 12 & 7, 0}}; }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b)}; }
};

template <>
struct Source<DType::kIQ1_M> {
  static constexpr int kBytes = 56, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    Words words;
    for (int g = 0; g < 4; ++g) {
      const int bits = nibble_at(b + 32, 4 * part + g);
      const int entry = int_at(b + 4 * part + g) | (bits & 7) << 8;
      put_eight(codec::kIQ1Grid[to_size(entry)], bits >> 3 != 0 ? 0xff : 0, &words[2 * g]);
    }
    return words;
  }
  static int scale(const std::byte* b, int i) { return half_bits_at(b + 48 + i / 4 * 2) >> (i % 4 * 3) & 7; }
  static Scales scales(const std::byte* b, int part) {
    return {.scale = {scale(b, 2 * part), scale(b, 2 * part + 1)}};
  }
  static Factors factors(const std::byte* b) {
    int bits = 0;
    for (int i = 0; i < 4; ++i) bits |= half_bits_at(b + 48 + 2 * i) >> 12 << (4 * i);
    return {.d = static_cast<std::uint16_t>(bits)};
  }
};

template <>
struct Source<DType::kIQ2_XXS> {
  static constexpr int kBytes = 66, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    Words words;
    const std::uint32_t signs = word_at(b + 6 + 8 * part);
    for (int g = 0; g < 4; ++g)
      put_eight(codec::kIQ2XXSGrid[to_size(int_at(b + 2 + 8 * part + g))],
                codec::all_signs(static_cast<int>(signs >> (7 * g) & 127u)), &words[2 * g]);
    return words;
  }
  static Scales scales(const std::byte* b, int part) { return {.scale = {int_at(b + 9 + 8 * part) >> 4, 0}}; }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b)}; }
};

template <>
struct Source<DType::kIQ2_XS> {
  static constexpr int kBytes = 74, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    Words words;
    for (int g = 0; g < 4; ++g) {
      const int both = half_bits_at(b + 2 + 8 * part + 2 * g);
      put_eight(codec::kIQ2XSGrid[to_size(both & 511)], codec::all_signs(both >> 9), &words[2 * g]);
    }
    return words;
  }
  static Scales scales(const std::byte* b, int part) {
    const int both = int_at(b + 66 + part);
    return {.scale = {both & 15, both >> 4}};
  }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b)}; }
};

template <>
struct Source<DType::kIQ2_S> {
  static constexpr int kBytes = 82, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    Words words;
    for (int g = 0; g < 4; ++g) {
      const int entry = int_at(b + 2 + 4 * part + g) | (int_at(b + 66 + part) >> (2 * g) & 3) << 8;
      put_eight(codec::kIQ2SGrid[to_size(entry)], int_at(b + 34 + 4 * part + g), &words[2 * g]);
    }
    return words;
  }
  static Scales scales(const std::byte* b, int part) {
    const int both = int_at(b + 74 + part);
    return {.scale = {both & 15, both >> 4}};
  }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b)}; }
};

template <>
struct Source<DType::kIQ3_XXS> {
  static constexpr int kBytes = 98, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    Words words;
    const std::uint32_t signs = word_at(b + 66 + 4 * part);
    for (int j = 0; j < 8; ++j) {
      const int eight = codec::all_signs(static_cast<int>(signs >> (j / 2 * 7) & 127u));
      const auto entry = to_size(int_at(b + 2 + 8 * part + j));
      words[to_size(j)] = four_levels(codec::kIQ3XXSGrid[entry], eight >> (j % 2 * 4));
    }
    return words;
  }
  static Scales scales(const std::byte* b, int part) {
    return {.scale = {int_at(b + 69 + 4 * part) >> 4, 0}};
  }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b)}; }
};

template <>
struct Source<DType::kIQ3_S> {
  static constexpr int kBytes = 110, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    Words words;
    for (int j = 0; j < 8; ++j) {
      const int entry = int_at(b + 2 + 8 * part + j) | (int_at(b + 66 + part) >> j & 1) << 8;
      const int signs = int_at(b + 74 + 4 * part + j / 2) >> (j % 2 * 4);
      words[to_size(j)] = four_levels(codec::kIQ3SGrid[to_size(entry)], signs);
    }
    return words;
  }
  static Scales scales(const std::byte* b, int part) { return {.scale = {nibble_at(b + 106, part), 0}}; }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b)}; }
};

}  // namespace weft::cpu
