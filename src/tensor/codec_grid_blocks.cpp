// The IQ types of one to three bits. The values of a block of 256 are entries of a grid, eight or four values
// each.
//
// Packing searches the nearest entries for a few scales of each sub-block, and then again for the scales that
// can be stored.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>

#include "tensor/codec_blocks.h"
#include "tensor/codec_bytes.h"
#include "tensor/codec_fit.h"
#include "tensor/codec_grids.h"
#include "tensor/codec_search.h"

namespace weft::codec {
namespace {

constexpr int kBlock = 256;
constexpr int kEight = 8;  // Values that share eight signs.

// The values of a grid's entries, kSize each.
template <int kSize, std::size_t kEntries, std::size_t kLevels>
constexpr std::array<std::int8_t, kEntries * kSize> values_of(
    const std::array<std::uint16_t, kEntries>& grid, const std::array<std::int8_t, kLevels>& levels) {
  std::array<std::int8_t, kEntries * kSize> values{};
  for (std::size_t e = 0; e < kEntries; ++e)
    for (int i = 0; i < kSize; ++i) {
      const int level = kSize == 8 ? level2(grid[e], i) : level3(grid[e], i);
      values[e * kSize + static_cast<std::size_t>(i)] = levels[static_cast<std::size_t>(level)];
    }
  return values;
}
constexpr auto kIQ1Values = values_of<8>(kIQ1Grid, kIQ1Levels);
constexpr auto kIQ2XXSValues = values_of<8>(kIQ2XXSGrid, kIQ2Levels);
constexpr auto kIQ2XSValues = values_of<8>(kIQ2XSGrid, kIQ2Levels);
constexpr auto kIQ2SValues = values_of<8>(kIQ2SGrid, kIQ2Levels);
constexpr auto kIQ3XXSValues = values_of<4>(kIQ3XXSGrid, kIQ3XXSLevels);
constexpr auto kIQ3SValues = values_of<4>(kIQ3SGrid, kIQ3SLevels);

constexpr SearchGrid<8, 2048, 3> kIQ1Search(kIQ1Values, kIQ1Levels);
constexpr SearchGrid<8, 256, 3> kIQ2XXSSearch(kIQ2XXSValues, kIQ2Levels);
constexpr SearchGrid<8, 512, 3> kIQ2XSSearch(kIQ2XSValues, kIQ2Levels);
constexpr SearchGrid<8, 1024, 3> kIQ2SSearch(kIQ2SValues, kIQ2Levels);
constexpr SearchGrid<4, 256, 8> kIQ3XXSSearch(kIQ3XXSValues, kIQ3XXSLevels);
constexpr SearchGrid<4, 512, 8> kIQ3SSearch(kIQ3SValues, kIQ3SLevels);

std::uint32_t word_at(const std::uint8_t* bytes) {
  std::uint32_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}
void put_word(std::uint8_t* bytes, std::uint32_t word) { std::memcpy(bytes, &word, sizeof(word)); }
int half_word_at(const std::uint8_t* bytes) { return bytes[0] | bytes[1] << 8; }
int nibble(const std::uint8_t* bytes, int i) { return bytes[i / 2] >> i % 2 * 4 & 15; }
void add_bits(std::uint8_t& byte, int shift, int bits) {
  byte = static_cast<std::uint8_t>(byte | bits << shift);
}

// Eight values: magnitudes of one or two entries, with signs.
template <int kSize, std::size_t kValues>
void put_eight(const std::array<std::int8_t, kValues>& grid, const int (&entries)[kEight / kSize], int signs,
               float scale, float* out) {
  for (int i = 0; i < kEight; ++i) {
    const auto at = static_cast<std::size_t>(entries[i / kSize] * kSize + i % kSize);
    const float value = scale * static_cast<float>(grid[at]);
    out[i] = signs >> i & 1 ? -value : value;
  }
}

// Scales are (2 s + 1) units of d.
float odd_scale(float d, int s) { return d * static_cast<float>(2 * s + 1); }

// The type's layout of eight values: their grid entries and all their signs. Also the layout of its scales,
// one for every kOfScale values.
template <int kSizeOfEntry>
struct GridEight {
  int entries[kEight / kSizeOfEntry];
  int signs;
};

struct IQ2XXS {
  static constexpr int kBytes = 66, kEntry = 8, kOfScale = 32;
  static constexpr float kUnit = 0.125f;
  static constexpr bool kEvenSigns = true;
  static constexpr auto& kValues = kIQ2XXSValues;
  static constexpr auto& kSearch = kIQ2XXSSearch;
  static GridEight<8> eight(const std::uint8_t* b, int i) {
    const std::uint8_t* const words = b + 2 + i / 4 * 8;
    return {{words[i % 4]}, all_signs(static_cast<int>(word_at(words + 4) >> i % 4 * 7 & 127))};
  }
  static int scale(const std::uint8_t* b, int i) { return b[2 + i * 8 + 7] >> 4; }
  static void put(std::uint8_t* b, int i, const GridEight<8>& from) {
    std::uint8_t* const words = b + 2 + i / 4 * 8;
    words[i % 4] = static_cast<std::uint8_t>(from.entries[0]);
    put_word(words + 4, word_at(words + 4) | static_cast<std::uint32_t>(from.signs & 127) << i % 4 * 7);
  }
  static void put_scale(std::uint8_t* b, int i, int s) { add_bits(b[2 + i * 8 + 7], 4, s); }
};

struct IQ2XS {
  static constexpr int kBytes = 74, kEntry = 8, kOfScale = 16;
  static constexpr float kUnit = 0.125f;
  static constexpr bool kEvenSigns = true;
  static constexpr auto& kValues = kIQ2XSValues;
  static constexpr auto& kSearch = kIQ2XSSearch;
  static GridEight<8> eight(const std::uint8_t* b, int i) {
    const int both = half_word_at(b + 2 + 2 * i);
    return {{both & 511}, all_signs(both >> 9)};
  }
  static int scale(const std::uint8_t* b, int i) { return nibble(b + 66, i); }
  static void put(std::uint8_t* b, int i, const GridEight<8>& from) {
    const int both = from.entries[0] | (from.signs & 127) << 9;
    b[2 + 2 * i] = static_cast<std::uint8_t>(both & 255);
    b[3 + 2 * i] = static_cast<std::uint8_t>(both >> 8);
  }
  static void put_scale(std::uint8_t* b, int i, int s) { add_bits(b[66 + i / 2], i % 2 * 4, s); }
};

struct IQ2S {
  static constexpr int kBytes = 82, kEntry = 8, kOfScale = 16;
  static constexpr float kUnit = 0.125f;
  static constexpr bool kEvenSigns = false;
  static constexpr auto& kValues = kIQ2SValues;
  static constexpr auto& kSearch = kIQ2SSearch;
  static GridEight<8> eight(const std::uint8_t* b, int i) {
    return {{b[2 + i] | (b[66 + i / 4] >> i % 4 * 2 & 3) << 8}, b[34 + i]};
  }
  static int scale(const std::uint8_t* b, int i) { return nibble(b + 74, i); }
  static void put(std::uint8_t* b, int i, const GridEight<8>& from) {
    b[2 + i] = static_cast<std::uint8_t>(from.entries[0] & 255);
    b[34 + i] = static_cast<std::uint8_t>(from.signs);
    add_bits(b[66 + i / 4], i % 4 * 2, from.entries[0] >> 8);
  }
  static void put_scale(std::uint8_t* b, int i, int s) { add_bits(b[74 + i / 2], i % 2 * 4, s); }
};

struct IQ3XXS {
  static constexpr int kBytes = 98, kEntry = 4, kOfScale = 32;
  static constexpr float kUnit = 0.25f;
  static constexpr bool kEvenSigns = true;
  static constexpr auto& kValues = kIQ3XXSValues;
  static constexpr auto& kSearch = kIQ3XXSSearch;
  static GridEight<4> eight(const std::uint8_t* b, int i) {
    const std::uint32_t signs = word_at(b + 66 + i / 4 * 4) >> i % 4 * 7 & 127;
    return {{b[2 + 2 * i], b[3 + 2 * i]}, all_signs(static_cast<int>(signs))};
  }
  static int scale(const std::uint8_t* b, int i) { return b[66 + i * 4 + 3] >> 4; }
  static void put(std::uint8_t* b, int i, const GridEight<4>& from) {
    b[2 + 2 * i] = static_cast<std::uint8_t>(from.entries[0]);
    b[3 + 2 * i] = static_cast<std::uint8_t>(from.entries[1]);
    std::uint8_t* const word = b + 66 + i / 4 * 4;
    put_word(word, word_at(word) | static_cast<std::uint32_t>(from.signs & 127) << i % 4 * 7);
  }
  static void put_scale(std::uint8_t* b, int i, int s) { add_bits(b[66 + i * 4 + 3], 4, s); }
};

struct IQ3S {
  static constexpr int kBytes = 110, kEntry = 4, kOfScale = 32;
  static constexpr float kUnit = 1.0f;
  static constexpr bool kEvenSigns = false;
  static constexpr auto& kValues = kIQ3SValues;
  static constexpr auto& kSearch = kIQ3SSearch;
  static GridEight<4> eight(const std::uint8_t* b, int i) {
    const int high = b[66 + i / 4] >> i % 4 * 2;
    return {{b[2 + 2 * i] | (high & 1) << 8, b[3 + 2 * i] | (high & 2) << 7}, b[74 + i]};
  }
  static int scale(const std::uint8_t* b, int i) { return nibble(b + 106, i); }
  static void put(std::uint8_t* b, int i, const GridEight<4>& from) {
    b[2 + 2 * i] = static_cast<std::uint8_t>(from.entries[0] & 255);
    b[3 + 2 * i] = static_cast<std::uint8_t>(from.entries[1] & 255);
    add_bits(b[66 + i / 4], i % 4 * 2, from.entries[0] >> 8 | from.entries[1] >> 8 << 1);
    b[74 + i] = static_cast<std::uint8_t>(from.signs);
  }
  static void put_scale(std::uint8_t* b, int i, int s) { add_bits(b[106 + i / 2], i % 2 * 4, s); }
};

template <class Type>
void unpack_grid(const std::uint8_t* block, float* out) {
  const float d = load_f16(block) * Type::kUnit;
  for (int i = 0; i < kBlock / kEight; ++i) {
    const auto eight = Type::eight(block, i);
    const float scale = odd_scale(d, Type::scale(block, i * kEight / Type::kOfScale));
    put_eight<Type::kEntry>(Type::kValues, eight.entries, eight.signs, scale, out + i * kEight);
  }
}

// One-bit types: an entry's values are shifted up or down by 1/8.
constexpr float kShift = 0.125f;
struct Shifted {
  int entry;
  bool down;
};

struct IQ1S {
  static constexpr int kBytes = 50, kOfScale = 32, kOfShift = 32;
  static int half(const std::uint8_t* b, int i) { return half_word_at(b + 34 + 2 * i); }
  static float d(const std::uint8_t* b) { return load_f16(b); }
  static Shifted eight(const std::uint8_t* b, int i) {
    const int high = half(b, i / 4);
    return {b[2 + i] | (high >> i % 4 * 3 & 7) << 8, high >> 15 != 0};
  }
  static int scale(const std::uint8_t* b, int i) { return half(b, i) >> 12 & 7; }
  static void or_half(std::uint8_t* b, int i, int bits) {
    add_bits(b[34 + 2 * i], 0, bits & 255);
    add_bits(b[35 + 2 * i], 0, bits >> 8);
  }
  static float put_d(std::uint8_t* b, float value) { return store_f16(value, b); }
  static void put(std::uint8_t* b, int i, const Shifted& from) {
    b[2 + i] = static_cast<std::uint8_t>(from.entry & 255);
    or_half(b, i / 4, (from.entry >> 8) << i % 4 * 3 | from.down << 15);
  }
  static void put_scale(std::uint8_t* b, int i, int s) { or_half(b, i, s << 12); }
};

// d is stored in the highest four bits of each of the four scale words.
struct IQ1M {
  static constexpr int kBytes = 56, kOfScale = 16, kOfShift = 8;
  static float d(const std::uint8_t* b) {
    int bits = 0;
    for (int i = 0; i < 4; ++i) bits |= (b[49 + 2 * i] >> 4) << 4 * i;
    return f16_to_f32(static_cast<std::uint16_t>(bits));
  }
  static Shifted eight(const std::uint8_t* b, int i) {
    const int high = nibble(b + 32, i);
    return {b[i] | (high & 7) << 8, (high & 8) != 0};
  }
  static int scale(const std::uint8_t* b, int i) { return half_word_at(b + 48 + i / 4 * 2) >> i % 4 * 3 & 7; }
  static float put_d(std::uint8_t* b, float value) {
    std::uint8_t half[2];
    const float stored = store_f16(value, half);
    for (int i = 0; i < 4; ++i) add_bits(b[49 + 2 * i], 4, nibble(half, i));
    return stored;
  }
  static void put(std::uint8_t* b, int i, const Shifted& from) {
    b[i] = static_cast<std::uint8_t>(from.entry & 255);
    add_bits(b[32 + i / 2], i % 2 * 4, from.entry >> 8 | from.down << 3);
  }
  static void put_scale(std::uint8_t* b, int i, int s) {
    const int bits = s << i % 4 * 3;
    add_bits(b[48 + i / 4 * 2], 0, bits & 255);
    add_bits(b[49 + i / 4 * 2], 0, bits >> 8);
  }
};

template <class Type>
void unpack_shifted(const std::uint8_t* block, float* out) {
  const float d = Type::d(block);
  for (int i = 0; i < kBlock / kEight; ++i) {
    const Shifted eight = Type::eight(block, i);
    const float scale = odd_scale(d, Type::scale(block, i * kEight / Type::kOfScale));
    for (int j = 0; j < kEight; ++j) {
      const auto value = static_cast<float>(kIQ1Values[static_cast<std::size_t>(eight.entry * kEight + j)]);
      out[i * kEight + j] = scale * (value + (eight.down ? -kShift : kShift));
    }
  }
}

// The sums of a least squares fit of a scale.
struct Sums {
  float xl = 0.0f;
  float ll = 0.0f;
  float gain() const { return ll > 0.0f && xl > 0.0f ? xl * xl / ll : 0.0f; }
};

// The entry nearest to the values, scaled to the grid and shifted by `shift`; adds it to the sums.
template <int kSize, std::size_t kEntries, std::size_t kLevels>
int nearest_entry(const SearchGrid<kSize, kEntries, kLevels>& grid, const float* x, const float* weights,
                  float to_level, float shift, Sums& sums) {
  std::array<float, kSize> level;
  for (std::size_t i = 0; i < kSize; ++i) level[i] = x[i] * to_level - shift;
  const int best = grid.nearest(level.data(), weights);
  for (std::size_t i = 0; i < kSize; ++i) {
    const float value = grid.values[i][static_cast<std::size_t>(best)] + shift;
    sums.xl += weights[i] * x[i] * value;
    sums.ll += weights[i] * value * value;
  }
  return best;
}

float farthest_of(std::span<const float> values) {
  float farthest = 0.0f;
  for (const float x : values) farthest = std::max(farthest, std::fabs(x));
  return farthest;
}

// Tries the scales that map the farthest value to one of `extremes`, and returns the one with the least
// error. `sums_of` returns the sums for the inverse of a scale.
template <class SumsOf>
float best_scale(float farthest, std::span<const float> extremes, SumsOf sums_of) {
  Sums best;
  for (const float extreme : extremes) {
    const Sums sums = sums_of(extreme * inverse(farthest));
    if (sums.gain() > best.gain()) best = sums;
  }
  return best.ll > 0.0f ? best.xl / best.ll : 0.0f;
}

// The magnitudes and signs of a block's values. Some types store an even number of signs for eight values. If
// the number is odd there, the least important of the eight gets a negative magnitude.
template <class Type>
std::array<float, kBlock> without_signs(const float* values, const float* weights,
                                        std::array<int, kBlock / kEight>& signs) {
  std::array<float, kBlock> magnitudes;
  for (std::size_t i = 0; i < kBlock; i += kEight) {
    int bits = 0;
    for (std::size_t j = 0; j < kEight; ++j) {
      magnitudes[i + j] = std::fabs(values[i + j]);
      bits |= (values[i + j] < 0.0f) << j;
    }
    if (Type::kEvenSigns && all_signs(bits & 127) != bits) {
      const auto loss = [&](std::size_t j) { return weights[i + j] * magnitudes[i + j] * magnitudes[i + j]; };
      std::size_t least = 0;
      for (std::size_t j = 1; j < kEight; ++j)
        if (loss(j) < loss(least)) least = j;
      magnitudes[i + least] *= -1.0f;
      bits ^= 1 << least;
    }
    signs[i / kEight] = bits;
  }
  return magnitudes;
}

// The weighted error of n values whose sums with their entries are known.
float error_of(const float* x, const float* weights, int n, const Sums& sums, float scale) {
  float squares = 0.0f;
  for (int i = 0; i < n; ++i) squares += weights[i] * x[i] * x[i];
  return squares - 2.0f * scale * sums.xl + scale * scale * sums.ll;
}

// Range of stored scales that are tried around the fitted one.
constexpr int kAround = 1;

template <class Type>
void pack_grid(const float* values, const float* given_weights, std::uint8_t* block) {
  constexpr int kSize = Type::kEntry;
  constexpr int kOfScale = Type::kOfScale;
  constexpr std::size_t kScales = kBlock / kOfScale;
  constexpr float kTop = Type::kEntry == 8 ? 43.0f : Type::kUnit < 1.0f ? 62.0f : 15.0f;
  // The tried scales map the farthest value to these levels.
  constexpr float kExtremes[] = {kTop * 1.25f, kTop * 1.1f, kTop * 1.03f, kTop * 0.97f, kTop * 0.91f,
                                 kTop * 0.83f, kTop * 0.7f, kTop * 0.55f, kTop * 0.37f, Type::kValues[0]};
  std::fill_n(block, Type::kBytes, std::uint8_t{0});
  const float* const weights = given_weights != nullptr ? given_weights : equal_weights();
  std::array<int, kBlock / kEight> signs;
  const std::array<float, kBlock> x = without_signs<Type>(values, weights, signs);
  // The entries of a sub-block for a scale.
  using Entries = std::array<int, kOfScale / kSize>;
  const auto choose = [&](std::size_t s, float to_level, Sums& sums) {
    Entries entries;
    const std::size_t begin = s * kOfScale;
    for (std::size_t i = 0; i < entries.size(); ++i)
      entries[i] = nearest_entry(Type::kSearch, x.data() + begin + i * kSize, weights + begin + i * kSize,
                                 to_level, 0.0f, sums);
    return entries;
  };
  std::array<float, kScales> fits;
  for (std::size_t s = 0; s < kScales; ++s)
    fits[s] = best_scale(farthest_of({x.data() + s * kOfScale, kOfScale}), kExtremes, [&](float to_level) {
      Sums sums;
      choose(s, to_level, sums);
      return sums;
    });
  constexpr float kTopScale = 31.0f * Type::kUnit;
  const float d = store_f16(*std::max_element(fits.begin(), fits.end()) / kTopScale, block) * Type::kUnit;
  const float to_scale = inverse(d);
  for (std::size_t s = 0; s < kScales; ++s) {
    const int fitted = nearest((fits[s] * to_scale - 1.0f) / 2.0f, 0, 15);
    Entries best{};
    int stored = fitted;
    float least = INFINITY;
    for (int i = std::max(fitted - kAround, 0); i <= std::min(fitted + kAround, 15); ++i) {
      Sums sums;
      const float scale = odd_scale(d, i);
      const Entries entries = choose(s, inverse(scale), sums);
      const float error = error_of(x.data() + s * kOfScale, weights + s * kOfScale, kOfScale, sums, scale);
      if (error < least) {
        least = error;
        best = entries;
        stored = i;
      }
    }
    Type::put_scale(block, static_cast<int>(s), stored);
    for (int i = 0; i < kOfScale / kEight; ++i) {
      const int at = static_cast<int>(s) * kOfScale / kEight + i;
      GridEight<kSize> eight{{}, signs[static_cast<std::size_t>(at)]};
      for (int j = 0; j < kEight / kSize; ++j)
        eight.entries[j] = best[static_cast<std::size_t>(i * (kEight / kSize) + j)];
      Type::put(block, at, eight);
    }
  }
}

template <class Type>
void pack_shifted(const float* values, const float* given_weights, std::uint8_t* block) {
  constexpr std::size_t kScales = kBlock / Type::kOfScale;
  constexpr int kShiftsOfScale = Type::kOfScale / Type::kOfShift;
  constexpr int kOfShift = Type::kOfShift / kEight;  // Entries.
  constexpr float kExtremes[] = {1.0f, 1.2f, 1.4f, 1.6f, 1.8f, 2.2f};
  std::fill_n(block, Type::kBytes, std::uint8_t{0});
  const float* const weights = given_weights != nullptr ? given_weights : equal_weights();
  struct Choice {
    std::array<Shifted, Type::kOfScale / kEight> entries{};
    Sums sums;
  };
  // The entries of a sub-block for a scale. Entries that share a shift bit are all shifted up or all down.
  const auto choose = [&](std::size_t s, float to_level) {
    Choice choice;
    for (int part = 0; part < kShiftsOfScale; ++part) {
      std::array<Shifted, kOfShift> best{}, tried{};
      Sums best_sums;
      float least = INFINITY;
      const std::size_t begin = s * Type::kOfScale + static_cast<std::size_t>(part) * Type::kOfShift;
      for (const bool down : {false, true}) {
        Sums sums;
        for (std::size_t j = 0; j < kOfShift; ++j)
          tried[j] = {nearest_entry(kIQ1Search, values + begin + j * kEight, weights + begin + j * kEight,
                                    to_level, down ? -kShift : kShift, sums),
                      down};
        const float error =
            error_of(values + begin, weights + begin, Type::kOfShift, sums, inverse(to_level));
        if (error < least) {
          least = error;
          best = tried;
          best_sums = sums;
        }
      }
      std::copy(best.begin(), best.end(), choice.entries.begin() + part * kOfShift);
      choice.sums.xl += best_sums.xl;
      choice.sums.ll += best_sums.ll;
    }
    return choice;
  };
  std::array<float, kScales> fits;
  for (std::size_t s = 0; s < kScales; ++s)
    fits[s] = best_scale(farthest_of({values + s * Type::kOfScale, Type::kOfScale}), kExtremes,
                         [&](float to_level) { return choose(s, to_level).sums; });
  const float d = Type::put_d(block, *std::max_element(fits.begin(), fits.end()) / 15.0f);
  const float to_scale = inverse(d);
  for (std::size_t s = 0; s < kScales; ++s) {
    const int fitted = nearest((fits[s] * to_scale - 1.0f) / 2.0f, 0, 7);
    Choice best;
    int stored = fitted;
    float least = INFINITY;
    for (int i = std::max(fitted - kAround, 0); i <= std::min(fitted + kAround, 7); ++i) {
      const float scale = odd_scale(d, i);
      const Choice choice = choose(s, inverse(scale));
      const float error = error_of(values + s * Type::kOfScale, weights + s * Type::kOfScale, Type::kOfScale,
                                   choice.sums, scale);
      if (error < least) {
        least = error;
        best = choice;
        stored = i;
      }
    }
    Type::put_scale(block, static_cast<int>(s), stored);
    for (std::size_t i = 0; i < best.entries.size(); ++i)
      Type::put(block, static_cast<int>(s) * Type::kOfScale / kEight + static_cast<int>(i), best.entries[i]);
  }
}

}  // namespace

void unpack_iq1_s(const std::uint8_t* block, float* out) { unpack_shifted<IQ1S>(block, out); }
void unpack_iq1_m(const std::uint8_t* block, float* out) { unpack_shifted<IQ1M>(block, out); }
void unpack_iq2_xxs(const std::uint8_t* block, float* out) { unpack_grid<IQ2XXS>(block, out); }
void unpack_iq2_xs(const std::uint8_t* block, float* out) { unpack_grid<IQ2XS>(block, out); }
void unpack_iq2_s(const std::uint8_t* block, float* out) { unpack_grid<IQ2S>(block, out); }
void unpack_iq3_xxs(const std::uint8_t* block, float* out) { unpack_grid<IQ3XXS>(block, out); }
void unpack_iq3_s(const std::uint8_t* block, float* out) { unpack_grid<IQ3S>(block, out); }

void pack_iq1_s(const float* values, const float* weights, std::uint8_t* block) {
  pack_shifted<IQ1S>(values, weights, block);
}
void pack_iq1_m(const float* values, const float* weights, std::uint8_t* block) {
  pack_shifted<IQ1M>(values, weights, block);
}
void pack_iq2_xxs(const float* values, const float* weights, std::uint8_t* block) {
  pack_grid<IQ2XXS>(values, weights, block);
}
void pack_iq2_xs(const float* values, const float* weights, std::uint8_t* block) {
  pack_grid<IQ2XS>(values, weights, block);
}
void pack_iq2_s(const float* values, const float* weights, std::uint8_t* block) {
  pack_grid<IQ2S>(values, weights, block);
}
void pack_iq3_xxs(const float* values, const float* weights, std::uint8_t* block) {
  pack_grid<IQ3XXS>(values, weights, block);
}
void pack_iq3_s(const float* values, const float* weights, std::uint8_t* block) {
  pack_grid<IQ3S>(values, weights, block);
}

}  // namespace weft::codec
