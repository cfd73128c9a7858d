#pragma once
// The grids of the IQ types: tables that are part of the formats (grids/*.inc, made by
// scripts/make_grids.py). An entry holds a level for each of its values, the first in the lowest bits.
// Entries of iq1 and iq2 have eight values of two bits each; entries of iq3 have four values of three bits
// each.
#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::codec {

inline constexpr std::array<std::uint16_t, 2048> kIQ1Grid = {
#include "tensor/grids/iq1_s.inc"
};
inline constexpr std::array<std::uint16_t, 256> kIQ2XXSGrid = {
#include "tensor/grids/iq2_xxs.inc"
};
inline constexpr std::array<std::uint16_t, 512> kIQ2XSGrid = {
#include "tensor/grids/iq2_xs.inc"
};
inline constexpr std::array<std::uint16_t, 1024> kIQ2SGrid = {
#include "tensor/grids/iq2_s.inc"
};
inline constexpr std::array<std::uint16_t, 256> kIQ3XXSGrid = {
#include "tensor/grids/iq3_xxs.inc"
};
inline constexpr std::array<std::uint16_t, 512> kIQ3SGrid = {
#include "tensor/grids/iq3_s.inc"
};

// The values of the levels.
inline constexpr std::array<std::int8_t, 3> kIQ1Levels = {-1, 0, 1};
inline constexpr std::array<std::int8_t, 3> kIQ2Levels = {8, 25, 43};
inline constexpr std::array<std::int8_t, 8> kIQ3XXSLevels = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr std::array<std::int8_t, 8> kIQ3SLevels = {1, 3, 5, 7, 9, 11, 13, 15};

/// The index of the level of an entry's value i.
constexpr int level2(std::uint16_t entry, int i) { return entry >> (2 * i) & 3; }
constexpr int level3(std::uint16_t entry, int i) { return entry >> (3 * i) & 7; }

/// All eight signs of iq2_xxs, iq2_xs and iq3_xxs, which store seven: the number of negative values is even.
constexpr int all_signs(int seven) {
  int parity = seven ^ seven >> 4;
  parity ^= parity >> 2;
  return seven | ((parity ^ parity >> 1) & 1) << 7;
}

}  // namespace weft::codec
