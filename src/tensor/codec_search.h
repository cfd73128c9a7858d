#pragma once
// Finds the entry of a grid nearest to given values. Inside this layer only.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace weft::codec {

/// The entry with the least sum of weights[i] (x[i] - value)^2 over its values, the first among equals.
/// `values` has all entries' first values, then their second ones, and so on. A grid has a multiple of 16
/// entries.
int nearest_of_4(const float* values, std::size_t n_entries, const float* x, const float* weights);
int nearest_of_8(const float* values, std::size_t n_entries, const float* x, const float* weights);

/// A grid whose values are one of kLevels levels each. Rounding each value alone gives the nearest of all
/// vectors of levels. Often that vector is an entry of the grid; otherwise all entries are searched.
template <int kSize, std::size_t kEntries, std::size_t kLevels>
struct SearchGrid {
  static constexpr std::size_t kVectors = [] {
    std::size_t n = 1;
    for (int i = 0; i < kSize; ++i) n *= kLevels;
    return n;
  }();

  std::array<std::array<float, kEntries>, kSize> values{};
  std::array<float, kLevels - 1> middles{};      ///< Midpoints between levels.
  std::array<std::int16_t, kVectors> entries{};  ///< By the indices of the levels; -1: none.

  /// `of_entries` has kSize values for each entry.
  constexpr SearchGrid(const std::array<std::int8_t, kEntries * kSize>& of_entries,
                       const std::array<std::int8_t, kLevels>& levels) {
    for (std::size_t l = 0; l + 1 < kLevels; ++l)
      middles[l] = 0.5f * static_cast<float>(levels[l] + levels[l + 1]);
    entries.fill(-1);
    for (std::size_t e = 0; e < kEntries; ++e) {
      std::size_t vector = 0;
      for (std::size_t i = 0; i < kSize; ++i) {
        const std::int8_t value = of_entries[e * kSize + i];
        values[i][e] = value;
        std::size_t level = 0;
        while (levels[level] != value) ++level;
        vector = vector * kLevels + level;
      }
      entries[vector] = static_cast<std::int16_t>(e);
    }
  }

  int nearest(const float* x, const float* weights) const {
    std::size_t vector = 0;
    for (std::size_t i = 0; i < kSize; ++i) {
      std::size_t level = 0;
      for (const float middle : middles) level += x[i] > middle;
      vector = vector * kLevels + level;
    }
    if (entries[vector] >= 0) return entries[vector];
    const auto search = kSize == 4 ? nearest_of_4 : nearest_of_8;
    return search(values[0].data(), kEntries, x, weights);
  }
};

}  // namespace weft::codec
