#pragma once
// Where packing finds codes and scales in the canonical (GGUF) blocks of each type. Codes are read as words
// of four neighbouring columns, one byte each, because masks and shifts then work on four at once.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "weft/dtype.h"

namespace weft::cpu {

using Words = std::array<std::uint32_t, 8>;  ///< The codes of 32 columns.

/// The scales of 32 columns: a half (and a min), or numbers to multiply the block's factors with; two of them
/// where each holds for 16 columns.
struct Scales {
  std::uint16_t half = 0;
  std::uint16_t min_half = 0;
  int scale[2] = {};
  int min[2] = {};
};

/// The factors of a block of 256.
struct Factors {
  std::uint16_t d = 0;
  std::uint16_t d_min = 0;
};

inline std::uint32_t word_at(const std::byte* p) {
  std::uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}
inline std::uint16_t half_bits_at(const std::byte* p) {
  std::uint16_t half;
  std::memcpy(&half, p, sizeof(half));
  return half;
}
inline int int_at(const std::byte* p) { return std::to_integer<int>(*p); }
inline void put_word(std::byte* p, std::uint32_t word) { std::memcpy(p, &word, sizeof(word)); }
inline void put_half(std::byte* p, int half) {
  const auto bits = static_cast<std::uint16_t>(half);
  std::memcpy(p, &bits, sizeof(bits));
}

/// 16 bytes whose low nibbles are columns 0..15 and whose high nibbles are columns 16..31.
inline Words split_nibbles(const std::byte* p) {
  Words words;
  for (int j = 0; j < 4; ++j) {
    const std::uint32_t both = word_at(p + 4 * j);
    words[j] = both & 0x0f0f0f0fu;
    words[j + 4] = both >> 4 & 0x0f0f0f0fu;
  }
  return words;
}
/// 32 bytes, one a column, of which the bits under `mask` at `shift` count.
inline Words bits_of_bytes(const std::byte* p, int shift, std::uint32_t mask) {
  Words words;
  for (int j = 0; j < 8; ++j) words[j] = word_at(p + 4 * j) >> shift & mask;
  return words;
}
inline void or_shifted(Words& words, const Words& bits, int shift) {
  for (int j = 0; j < 8; ++j) words[j] |= bits[j] << shift;
}
/// One bit a column, in 32 bits.
inline void or_fifth_bits(Words& words, std::uint32_t bits) {
  for (int j = 0; j < 8; ++j) {
    // The multiplication makes copies of the four bits so that bit t is also at 8 t.
    words[j] |= ((bits >> (4 * j) & 15u) * 0x00204081u & 0x01010101u) << 4;
  }
}

/// Source<type>: kBytes of a canonical block of kParts times 32 columns; codes and scales of its 32 columns
/// number `part`; factors.
template <DType kType>
struct Source;

template <>
struct Source<DType::kQ4_0> {
  static constexpr int kBytes = 18, kParts = 1;
  static Words codes(const std::byte* b, int) { return split_nibbles(b + 2); }
  static Scales scales(const std::byte* b, int) { return {.half = half_bits_at(b)}; }
};

template <>
struct Source<DType::kIQ4_NL> : Source<DType::kQ4_0> {};

template <>
struct Source<DType::kQ4_1> {
  static constexpr int kBytes = 20, kParts = 1;
  static Words codes(const std::byte* b, int) { return split_nibbles(b + 4); }
  static Scales scales(const std::byte* b, int) {
    return {.half = half_bits_at(b), .min_half = half_bits_at(b + 2)};
  }
};

template <>
struct Source<DType::kQ5_0> {
  static constexpr int kBytes = 22, kParts = 1;
  static Words codes(const std::byte* b, int) {
    Words words = split_nibbles(b + 6);
    or_fifth_bits(words, word_at(b + 2));
    return words;
  }
  static Scales scales(const std::byte* b, int) { return {.half = half_bits_at(b)}; }
};

template <>
struct Source<DType::kQ5_1> {
  static constexpr int kBytes = 24, kParts = 1;
  static Words codes(const std::byte* b, int) {
    Words words = split_nibbles(b + 8);
    or_fifth_bits(words, word_at(b + 4));
    return words;
  }
  static Scales scales(const std::byte* b, int) {
    return {.half = half_bits_at(b), .min_half = half_bits_at(b + 2)};
  }
};

template <>
struct Source<DType::kQ8_0> {
  static constexpr int kBytes = 34, kParts = 1;
  static Words codes(const std::byte* b, int) {
    Words words;
    for (int j = 0; j < 8; ++j) words[j] = word_at(b + 2 + 4 * j) ^ 0x80808080u;
    return words;
  }
  static Scales scales(const std::byte* b, int) { return {.half = half_bits_at(b)}; }
};

template <>
struct Source<DType::kMXFP4> {
  static constexpr int kBytes = 17, kParts = 1;
  static Words codes(const std::byte* b, int) { return split_nibbles(b + 1); }
  static Scales scales(const std::byte* b, int) { return {.scale = {int_at(b), 0}}; }
};

template <>
struct Source<DType::kIQ4_XS> {
  static constexpr int kBytes = 136, kParts = 8;
  static Words codes(const std::byte* b, int part) { return split_nibbles(b + 8 + 16 * part); }
  static Scales scales(const std::byte* b, int part) {
    const int low = int_at(b + 4 + part / 2) >> (4 * (part % 2)) & 15;
    const int high = half_bits_at(b + 2) >> (2 * part) & 3;
    return {.scale = {(low | high << 4) - 32, 0}};
  }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b)}; }
};

// The K types: 256 columns; two-bit quants are stored as 2 x 128 columns, four quarters of 32 side by side in
// a byte.
template <>
struct Source<DType::kQ2_K> {
  static constexpr int kBytes = 84, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    return bits_of_bytes(b + 16 + 32 * (part / 4), 2 * (part % 4), 0x03030303u);
  }
  static Scales scales(const std::byte* b, int part) {
    const int first = int_at(b + 2 * part), second = int_at(b + 2 * part + 1);
    return {.scale = {first & 15, second & 15}, .min = {first >> 4, second >> 4}};
  }
  static Factors factors(const std::byte* b) {
    return {.d = half_bits_at(b + 80), .d_min = half_bits_at(b + 82)};
  }
};

template <>
struct Source<DType::kQ3_K> {
  static constexpr int kBytes = 110, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    Words words = bits_of_bytes(b + 32 + 32 * (part / 4), 2 * (part % 4), 0x03030303u);
    or_shifted(words, bits_of_bytes(b, part, 0x01010101u), 2);
    return words;
  }
  /// Six bits: four of them in nibbles of bytes 0..7, two in pairs of bytes 8..11.
  static int scale(const std::byte* s, int i) {
    const int low = int_at(s + i % 8) >> (4 * (i / 8)) & 15;
    const int high = int_at(s + 8 + i % 4) >> (2 * (i / 4)) & 3;
    return (low | high << 4) - 32;
  }
  static Scales scales(const std::byte* b, int part) {
    return {.scale = {scale(b + 96, 2 * part), scale(b + 96, 2 * part + 1)}};
  }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b + 108)}; }
};

template <>
struct Source<DType::kQ4_K> {
  static constexpr int kBytes = 144, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    return bits_of_bytes(b + 16 + 32 * (part / 2), 4 * (part % 2), 0x0f0f0f0fu);
  }
  /// Six bits each. Scales and mins 0..3 are the low bits of bytes 0..3 and 4..7. For 4..7 the low four bits
  /// are the nibbles of bytes 8..11, the high two the high bits of bytes 0..7.
  static Scales scales(const std::byte* b, int part) {
    const std::byte* const s = b + 4;
    if (part < 4) return {.scale = {int_at(s + part) & 63, 0}, .min = {int_at(s + part + 4) & 63, 0}};
    const int both = int_at(s + part + 4);
    return {.scale = {(both & 15) | int_at(s + part - 4) >> 6 << 4, 0},
            .min = {both >> 4 | int_at(s + part) >> 6 << 4, 0}};
  }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b), .d_min = half_bits_at(b + 2)}; }
};

template <>
struct Source<DType::kQ5_K> {
  static constexpr int kBytes = 176, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    Words words = bits_of_bytes(b + 48 + 32 * (part / 2), 4 * (part % 2), 0x0f0f0f0fu);
    or_shifted(words, bits_of_bytes(b + 16, part, 0x01010101u), 4);
    return words;
  }
  static Scales scales(const std::byte* b, int part) { return Source<DType::kQ4_K>::scales(b, part); }
  static Factors factors(const std::byte* b) { return Source<DType::kQ4_K>::factors(b); }
};

template <>
struct Source<DType::kQ6_K> {
  static constexpr int kBytes = 210, kParts = 8;
  static Words codes(const std::byte* b, int part) {
    const int half = part / 4, quarter = part % 4;
    Words words = bits_of_bytes(b + 64 * half + 32 * (quarter % 2), 4 * (quarter / 2), 0x0f0f0f0fu);
    or_shifted(words, bits_of_bytes(b + 128 + 32 * half, 2 * quarter, 0x03030303u), 4);
    return words;
  }
  static Scales scales(const std::byte* b, int part) {
    return {.scale = {int_at(b + 192 + 2 * part), int_at(b + 193 + 2 * part)}};
  }
  static Factors factors(const std::byte* b) { return {.d = half_bits_at(b + 208)}; }
};

}  // namespace weft::cpu
