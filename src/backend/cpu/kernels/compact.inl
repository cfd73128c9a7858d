// Products of compact panels (layout/compact.h): the sums of multiply_float_panels, with weights whose high
// bytes are looked up. Needs panel_codes.inl and WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/layout/compact.h"

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// Adds records of a unit to the sums of all columns, kSide of them from kFirst on. Their high bytes are
/// `high`'s, or are looked up where that is null.
template <int kFirst, int kSide, bool kPatched, int kColumns>
static inline __attribute__((always_inline)) void add_records(const std::byte* unit, Codes table,
                                                              const std::byte* high,
                                                              const float* const (&x)[kColumns],
                                                              std::int64_t at, Floats (&total)[kColumns]) {
  constexpr int kPlane = 4 * kPanelRows;
  Floats sums[kSide][kColumns];
#pragma GCC unroll 2
  for (int s = 0; s < kSide; ++s)
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) sums[s][c] = zero_floats();
#pragma GCC unroll 1
  for (int group = 0; group < kCompactGroups; ++group, unit += 3 * kPlane) {
    // With one column too. There is so much work for each line that hardware prefetching alone reaches only
    // two thirds of the memory's speed.
    if constexpr (kFirst == 0) prefetch<kFloatsAhead, 3 * kPlane, kColumns, 0>(unit);
    const Codes indices = load_codes(unit);
#pragma GCC unroll 2
    for (int s = 0; s < kSide; ++s) {
      const int record = kFirst + s;
      Codes upper;
      if constexpr (kPatched) {
        upper = load_codes(high + (record * kCompactGroups + group) * kPlane);
      } else {
        upper = look_up(table, record == 0 ? shifted_bits<0, 15>(indices) : shifted_bits<4, 15>(indices));
      }
      Floats w[4];
      bf16_of_bytes(load_codes(unit + (1 + record) * kPlane), upper, w);
      const std::int64_t k = at + record * kBlockColumns + 4 * group;
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t)
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) sums[s][c] = multiply_add(w[t], splat(x[c] + k + t), sums[s][c]);
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < kSide; ++s)
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) total[c] = add(total[c], sums[s][c]);
}

template <bool kPatched, int kColumns>
static inline __attribute__((always_inline)) void add_unit(const std::byte* unit, Codes table,
                                                           const std::byte* high,
                                                           const float* const (&x)[kColumns], std::int64_t at,
                                                           Floats (&total)[kColumns]) {
  // A record's sums are chains of additions: with few columns two records go side by side.
  if constexpr (8 * kColumns <= kRegisters * kLanes / kPanelRows) {
    add_records<0, 2, kPatched, kColumns>(unit, table, high, x, at, total);
  } else {
    add_records<0, 1, kPatched, kColumns>(unit, table, high, x, at, total);
    add_records<1, 1, kPatched, kColumns>(unit, table, high, x, at, total);
  }
}

static inline std::uint32_t load_escape(const std::byte* p) {
  std::uint32_t escape;
  __builtin_memcpy(&escape, p, sizeof(escape));
  return escape;
}

/// A unit's high bytes, with its escapes. They end before `end` whatever they say, since panels come from
/// files, too. Returns the first escape after them.
static __attribute__((noinline)) const std::byte* patch_unit(const std::byte* unit, const std::byte* table,
                                                             const std::byte* escape, const std::byte* end,
                                                             std::byte* high) {
  constexpr int kPlane = 4 * kPanelRows;
  const Codes entries = load_table(reinterpret_cast<const std::uint8_t*>(table));
  for (int group = 0; group < kCompactGroups; ++group, high += kPlane) {
    const Codes indices = load_codes(unit + 3 * kPlane * group);
    store_codes(high, look_up(entries, shifted_bits<0, 15>(indices)));
    store_codes(high + kCompactGroups * kPlane, look_up(entries, shifted_bits<4, 15>(indices)));
  }
  high -= kCompactGroups * kPlane;
  const std::uint32_t of_unit = load_escape(escape) >> kEscapeUnitShift;
  for (std::uint32_t e; escape < end && (e = load_escape(escape)) >> kEscapeUnitShift == of_unit;
       escape += sizeof(e))
    high[e >> kEscapePlaceShift & (kCompactPlaces - 1)] = static_cast<std::byte>(e & 0xff);
  return escape;
}

/// out[c][16] = a panel of n_values columns times the float rows x[c].
template <int kColumns>
static void multiply_compact(const std::byte* panel, const std::byte* const (&)[kLowPlanes],
                             std::int64_t n_values, const std::byte* const* rows, float* out) {
  constexpr int kUnitBytes = kCompactPlaces + kCompactPlaces / 2;
  const float* x[kColumns];
  Floats total[kColumns];
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
    x[c] = reinterpret_cast<const float*>(rows[c]);
    total[c] = zero_floats();
  }
  const Codes table = load_table(reinterpret_cast<const std::uint8_t*>(panel));
  const std::byte* escape = panel + kCompactTable;
  const std::byte* const end_of_header = panel + compact_header_bytes(n_values);
  const std::byte* unit = end_of_header;
  alignas(64) std::byte high[kCompactPlaces];
#pragma GCC unroll 1
  for (std::int64_t at = 0; at < n_values; at += kCompactColumns, unit += kUnitBytes) {
    if (load_escape(escape) >> kEscapeUnitShift == static_cast<std::uint32_t>(at / kCompactColumns))
        [[unlikely]] {
      escape = patch_unit(unit, panel, escape, end_of_header, high);
      add_unit<true, kColumns>(unit, table, high, x, at, total);
    } else {
      add_unit<false, kColumns>(unit, table, nullptr, x, at, total);
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) store_f32(out + 16 * c, total[c]);
}

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
