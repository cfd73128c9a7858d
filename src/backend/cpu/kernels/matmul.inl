// Micro-kernels of matrix products over packed panels: 16 rows x up to kTileColumns columns, instantiated for
// each layout and number of columns. Needs panel_codes.inl, super_blocks.inl, rows.inl (activations) and
// WEFT_CPU_ISA.
//
// A column's result is the same whatever tile it falls into: integer sums are exact, and its float sums
// follow the blocks of the panel.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/packed_layout.h"

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// out[c][16] = a panel times the kQ8 rows x[c]; for an unpacked panel, adds to out.
template <int kLayoutIndex, int kColumns, bool kUnpacked = false>
static void multiply_blocks(const std::byte* panel, LowPlanes low_planes, std::int64_t n_blocks,
                            const std::byte* const* rows, float* out) {
  using T = Traits<kLayoutIndex, kUnpacked>;
  static_assert(offsetof(Q8Group, q) == 0);
  const std::byte* x[kColumns];
  Floats total[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    x[c] = rows[c];
    total[c] = kUnpacked ? load_f32(out + 16 * c) : zero_floats();
  }
  Codes table{};
  if constexpr (T::kTable) table = load_table(kPanelLayouts[kLayoutIndex].table.of);
  const std::byte* low[kLowPlanes] = {low_planes[0], low_planes[1]};

  std::ptrdiff_t group = 0;
#pragma GCC unroll 1
  for (std::int64_t left = n_blocks; left > 0; --left) {
    prefetch<kQuantisedAhead, T::kRecordBytes, kColumns, T::kStreamed>(panel);
    if constexpr (T::kTall)
      for (const std::byte* plane : low) prefetch<kQuantisedAhead / 2, 128, kColumns>(plane);
    Floats scale{}, min{};
    const auto load_scales = [&] {
      const std::byte* const scales = panel + T::kCodeBytes;
      if constexpr (T::kScales == ScaleKind::kHalf || T::kMin) scale = load_f16(scales);
      if constexpr (T::kMin) min = load_f16(scales + 32);
      if constexpr (T::kScales == ScaleKind::kExponent) scale = load_exponents(scales);
    };
    if constexpr (kColumns > T::kInOrder) load_scales();
    Ints sums[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      const auto* g = reinterpret_cast<const Q8Group*>(x[c] + group);
      sums[c] = T::kMin || T::kCentred ? zero_ints() : start<T::kStartShift, T::kMaxCode>(&g->offset);
    }
    add_record<T, 0, 8, kColumns>(panel, table, x, group, sums, low);
    if constexpr (T::kTall)
      for (const std::byte*& plane : low) plane += plane_bytes(Plane::kPairs);
    if constexpr (kColumns <= T::kInOrder) {
      keep_order_of_reads();
      load_scales();
    }
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      const auto* g = reinterpret_cast<const Q8Group*>(x[c] + group);
      total[c] = multiply_add(to_floats(sums[c]), mul(scale, splat(&g->scale)), total[c]);
      if constexpr (T::kMin) total[c] = multiply_add(min, splat(&g->scaled_sum), total[c]);
    }
    panel += T::kRecordBytes;
    group += static_cast<std::ptrdiff_t>(sizeof(Q8Group));
  }
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) store_f32(out + 16 * c, total[c]);
}

/// The distance between the columns' results of one panel and of the next.
inline constexpr int kTile = kTileColumns * kPanelRows;

/// out[p][c][16] = panels of floats, `panel_bytes` apart, times the float rows x[c]. Each record has a sum of
/// its own, which is added to the total: errors grow with 32 + K / 32 terms, not with K.
template <int kLayoutIndex, int kColumns, int kPanels, bool kFetch = true>
static inline __attribute__((always_inline)) void multiply_float_panels(const std::byte* panel,
                                                                        std::int64_t panel_bytes,
                                                                        std::int64_t n_values,
                                                                        const std::byte* const* rows,
                                                                        float* out) {
  using T = Traits<kLayoutIndex>;
  constexpr int kStep = T::kLayout.element_bytes * kPanelRows;
  constexpr int kStreamed = kAlwaysFetches && T::kLayout.element_bytes == 2 ? 0 : 1;
  const float* x[kColumns];
  Floats total[kPanels][kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) x[c] = reinterpret_cast<const float*>(rows[c]);
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) total[p][c] = zero_floats();
  for (std::int64_t begin = 0; begin < n_values; begin += kBlockColumns) {
    const std::int64_t end = begin + kBlockColumns < n_values ? begin + kBlockColumns : n_values;
    Floats sums[kPanels][kColumns];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) sums[p][c] = zero_floats();
#pragma GCC unroll 4
    for (std::int64_t k = begin; k < end; ++k) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        const std::byte* const at = panel + p * panel_bytes;
        if constexpr (kFetch)
          if (k * kStep % 64 == 0) prefetch<kFloatsAhead, 64, kPanels * kColumns, kStreamed>(at);
        Floats w;
        if constexpr (T::kLayout.dtype == DType::kF32) w = load_f32(at);
        if constexpr (T::kLayout.dtype == DType::kF16) w = load_f16(at);
        if constexpr (T::kLayout.dtype == DType::kBF16) w = load_bf16(at);
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) sums[p][c] = multiply_add(w, splat(x[c] + k), sums[p][c]);
      }
      panel += kStep;
    }
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) total[p][c] = add(total[p][c], sums[p][c]);
  }
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) store_f32(out + p * kTile + 16 * c, total[p][c]);
}

template <int kLayoutIndex, int kColumns>
static void multiply_floats(const std::byte* panel, LowPlanes, std::int64_t n_values,
                            const std::byte* const* rows, float* out) {
  multiply_float_panels<kLayoutIndex, kColumns, 1>(panel, 0, n_values, rows, out);
}

/// A column's sums are a chain of additions, each of which waits for the one before. A short panel (of the
/// second matrix of a low-rank product) has no other work to fill the wait, so several are computed side by
/// side. They end so soon that prefetches would delay their own loads: they make none.
inline constexpr std::int64_t kShortPanel = 128;  ///< Columns of the matrix.
inline constexpr int kSumsSideBySide = kRegisters * kLanes / kPanelRows / 4;
template <int kColumns>
inline constexpr int kShortPanels = kColumns <= kSumsSideBySide ? kSumsSideBySide / kColumns : 1;

template <int kLayoutIndex, int kColumns>
static void multiply_short_panels(const std::byte* panel, std::int64_t panel_bytes, std::int64_t n_panels,
                                  std::int64_t n_values, const std::byte* const* rows, float* out) {
  constexpr int kPanels = kShortPanels<kColumns>;
  for (; n_panels >= kPanels; n_panels -= kPanels) {
    multiply_float_panels<kLayoutIndex, kColumns, kPanels, false>(panel, panel_bytes, n_values, rows, out);
    panel += kPanels * panel_bytes;
    out += kPanels * kTile;
  }
  for (; n_panels > 0; --n_panels) {
    multiply_float_panels<kLayoutIndex, kColumns, 1, false>(panel, panel_bytes, n_values, rows, out);
    panel += panel_bytes;
    out += kTile;
  }
}

using Multiply = void (*)(const std::byte* panel, LowPlanes low, std::int64_t n, const std::byte* const* rows,
                          float* out);

using MultiplyShort = void (*)(const std::byte* panel, std::int64_t panel_bytes, std::int64_t n_panels,
                               std::int64_t n, const std::byte* const* rows, float* out);

/// The micro-kernels of a layout, by number of columns.
struct MultiplyTable {
  Multiply by_columns[kTileColumns];
  MultiplyShort short_by_columns[kTileColumns];  ///< Null where one panel at a time is as fast.
  int n_values;                                  ///< Columns per unit of n.
};
template <int kLayoutIndex, int kColumns>
constexpr void fill(MultiplyTable& table) {
  constexpr PanelLayout kLayout = kPanelLayouts[kLayoutIndex];
  if constexpr (kLayout.element_bytes > 0) {
    table.n_values = 1;
    table.by_columns[kColumns - 1] = multiply_floats<kLayoutIndex, kColumns>;
    if constexpr (kShortPanels<kColumns> > 1)
      table.short_by_columns[kColumns - 1] = multiply_short_panels<kLayoutIndex, kColumns>;
  } else if constexpr (kLayout.scales == ScaleKind::kSuperFlat) {
    table.n_values = unit_columns(kLayout);
    table.by_columns[kColumns - 1] = multiply_flat_blocks<kLayoutIndex, kColumns>;
  } else if constexpr (kLayout.scales == ScaleKind::kSuper16Min) {
    table.n_values = unit_columns(kLayout);
    table.by_columns[kColumns - 1] = multiply_scaled_blocks<kLayoutIndex, kColumns>;
  } else if constexpr (has_super_blocks(kLayout.scales)) {
    table.n_values = unit_columns(kLayout);
    table.by_columns[kColumns - 1] = multiply_super_blocks<kLayoutIndex, kColumns>;
  } else {
    table.n_values = kBlockColumns;
    table.by_columns[kColumns - 1] = multiply_blocks<kLayoutIndex, kColumns>;
  }
  if constexpr (kColumns > kFewestColumns) fill<kLayoutIndex, kColumns - 1>(table);
}
struct AllTables {
  MultiplyTable of[kNumPanelLayouts];
};
template <int kLayoutIndex>
constexpr void fill_all(AllTables& tables) {
  fill<kLayoutIndex, kTileColumns>(tables.of[kLayoutIndex]);
  if constexpr (kLayoutIndex > 0) fill_all<kLayoutIndex - 1>(tables);
}
constexpr AllTables all_tables() {
  AllTables tables{};
  fill_all<kNumPanelLayouts - 1>(tables);
  return tables;
}
static constexpr AllTables kMultiply = all_tables();

template <int kColumns>
constexpr void fill_compact(MultiplyTable& table) {
  table.by_columns[kColumns - 1] = multiply_compact<kColumns>;
  if constexpr (kColumns > kFewestColumns) fill_compact<kColumns - 1>(table);
}
constexpr MultiplyTable compact_table() {
  MultiplyTable table{.n_values = 1};
  fill_compact<kTileColumns>(table);
  return table;
}
static constexpr MultiplyTable kMultiplyCompact = compact_table();

/// The index in kPanelLayouts of a matrix that is not compact; -1: it cannot be packed.
static int layout_index(const PackedMatrix& matrix) {
  for (int i = 0; i < kNumPanelLayouts; ++i)
    if (kPanelLayouts[i].dtype == matrix.dtype && kPanelLayouts[i].tall == (matrix.low_bytes > 0)) return i;
  return -1;
}

static const MultiplyTable* multiply_table(const PackedMatrix& matrix) {
  if (matrix.compact) return &kMultiplyCompact;
  const int i = layout_index(matrix);
  return i >= 0 ? &kMultiply.of[i] : nullptr;
}

/// With few columns a matrix and its gate are two streams from memory, and each change of stream costs some
/// accesses. So this many panels of one matrix precede the gate's, or the additions'.
inline constexpr int kGatedPanels = 16;
/// With many columns, a tile's activations stay in the first-level cache for this many panels.
inline constexpr int kTilePanels = 8;

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
