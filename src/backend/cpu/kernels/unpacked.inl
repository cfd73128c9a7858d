// Panels whose codes become bytes once for many columns, where unpacking them for each tile of columns is a
// good part of the work. An unpacked panel has the scales of its layout, and its records have a plane of
// bytes. Needs matmul.inl.
//
// Sums are the same as with packed panels, so a column has the same bits either way.
#include <cstddef>
#include <cstdint>

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// The least numbers of columns for which unpacking is worth it, without and with low planes. The columns
/// whose sums are kept together, and the bytes of a panel that then stay in the first-level cache.
inline constexpr std::int64_t kUnpackedFrom = 16, kTallUnpackedFrom = 8;
inline constexpr std::int64_t kUnpackedColumns = 128, kUnpackedBytes = 16 * 1024;
static_assert(kUnpackedFrom % kTileColumns == 0 && kUnpackedColumns % kTileColumns == 0);

/// The number of steps to decode a code: from a plane with several, joined with bits of another plane or of
/// low planes, through a table.
constexpr int unpacking_steps(const PanelLayout& layout) {
  return (layout.base != Plane::kBytes ? 1 : 0) + (layout.extra != Plane::kNone ? 1 : 0) +
         (layout.tall ? 1 : 0) + (layout.table.of[0] != 0 ? 1 : 0);
}
constexpr bool is_unpacked(const PanelLayout& layout) {
  return layout.element_bytes == 0 && layout.scales != ScaleKind::kSuper16Min &&
         unpacking_steps(layout) >= kStepsToUnpack;
}

/// For a layout whose panels are unpacked, unit by unit; others have null.
struct Unpacking {
  void (*unpack)(const std::byte* panel, LowPlanes low, std::int64_t n_units, std::byte* to);
  Multiply multiply;  ///< Adds the product of unpacked units with kTileColumns columns to the sums.
  int unit_bytes, unpacked_bytes;
  int low_bytes;               ///< In each low plane, per unit.
  int x_bytes;                 ///< In a row of activations, per unit.
  int n_values;                ///< Columns of a unit.
  std::int64_t least_columns;  ///< Of activations.
};

template <class T, int kGroup>
static inline __attribute__((always_inline)) void unpack_groups(const std::byte* record, Codes table,
                                                                LowPlanes low, std::byte* to) {
  const LowNibbles nibbles = low_nibbles<T, kGroup / 4>(low);
  const Codes first = codes_of<T, kGroup>(record, table, nibbles),
              second = codes_of<T, kGroup + 1>(record, table, nibbles);
  store_unpacked<T::kMaxCode>(first, second, to + 64 * kGroup);
  if constexpr (kGroup + 2 < 8) unpack_groups<T, kGroup + 2>(record, table, low, to);
}

template <int kLayoutIndex>
static void unpack_units(const std::byte* panel, LowPlanes low_planes, std::int64_t n_units, std::byte* to) {
  using T = Traits<kLayoutIndex>;
  using Unpacked = Traits<kLayoutIndex, true>;
  constexpr int kScaleBytes = T::kRecordBytes - T::kCodeBytes;
  Codes table{};
  if constexpr (T::kTable) table = load_table(kPanelLayouts[kLayoutIndex].table.of);
  const std::byte* low[kLowPlanes] = {low_planes[0], low_planes[1]};
  for (; n_units > 0; --n_units) {
    __builtin_memcpy(to, panel, T::kHeaderBytes);
    panel += T::kHeaderBytes;
    to += T::kHeaderBytes;
    for (int i = 0; i < unit_columns(T::kLayout) / kBlockColumns; ++i) {
      prefetch<kQuantisedAhead, T::kRecordBytes, kTileColumns, 0>(panel);
      unpack_groups<T, 0>(panel, table, low, to);
      if constexpr (T::kTall)
        for (const std::byte*& plane : low) plane += plane_bytes(Plane::kPairs);
      __builtin_memcpy(to + Unpacked::kCodeBytes, panel + T::kCodeBytes, kScaleBytes);
      panel += T::kRecordBytes;
      to += Unpacked::kRecordBytes;
    }
  }
}

template <int kLayoutIndex>
constexpr Unpacking unpacking() {
  using T = Traits<kLayoutIndex, true>;
  constexpr int kBlocks = unit_columns(T::kLayout) / kBlockColumns;
  static_assert(T::kHeaderBytes + kBlocks * T::kRecordBytes <= kUnpackedBytes);
  Unpacking of{};
  of.unpack = unpack_units<kLayoutIndex>;
  of.unit_bytes = unit_bytes(T::kLayout);
  of.unpacked_bytes = T::kHeaderBytes + kBlocks * T::kRecordBytes;
  of.low_bytes = T::kLayout.tall ? kBlocks * plane_bytes(Plane::kPairs) : 0;
  of.n_values = unit_columns(T::kLayout);
  of.least_columns = T::kLayout.tall ? kTallUnpackedFrom : kUnpackedFrom;
  of.x_bytes = static_cast<int>(has_super_blocks(T::kScales) ? kBlocks / kWideBlocks * sizeof(Q8Wide)
                                                             : sizeof(Q8Group));
  if constexpr (!has_super_blocks(T::kScales)) {
    of.multiply = multiply_blocks<kLayoutIndex, kTileColumns, true>;
  } else if constexpr (T::kScales == ScaleKind::kSuperFlat) {
    of.multiply = multiply_flat_blocks<kLayoutIndex, kTileColumns, true>;
  } else {
    of.multiply = multiply_super_blocks<kLayoutIndex, kTileColumns, true>;
  }
  return of;
}

struct AllUnpackings {
  Unpacking of[kNumPanelLayouts];
};
template <int kLayoutIndex>
constexpr void fill_unpackings(AllUnpackings& all) {
  if constexpr (is_unpacked(kPanelLayouts[kLayoutIndex])) all.of[kLayoutIndex] = unpacking<kLayoutIndex>();
  if constexpr (kLayoutIndex > 0) fill_unpackings<kLayoutIndex - 1>(all);
}
constexpr AllUnpackings all_unpackings() {
  AllUnpackings all{};
  fill_unpackings<kNumPanelLayouts - 1>(all);
  return all;
}
static constexpr AllUnpackings kUnpackings = all_unpackings();

/// Null where panels of a matrix are not unpacked.
static const Unpacking* unpacking_of(const PackedMatrix& matrix) {
  const int i = matrix.compact ? -1 : layout_index(matrix);
  return i >= 0 && kUnpackings.of[i].unpack != nullptr ? &kUnpackings.of[i] : nullptr;
}

/// out[c][16] = a panel times the rows x[c], of whole tiles of columns.
static void multiply_unpacked(const PackedMatrix& matrix, const Unpacking& of, std::int64_t panel,
                              const std::byte* const* x, std::int64_t n_columns, float* out) {
  alignas(64) std::byte unpacked[kUnpackedBytes];
  const std::int64_t n_units = (matrix.columns + of.n_values - 1) / of.n_values;
  const std::int64_t at_a_time = kUnpackedBytes / of.unpacked_bytes;
  for (std::int64_t i = 0; i < n_columns * kPanelRows; ++i) out[i] = 0.0f;
  for (std::int64_t unit = 0; unit < n_units; unit += at_a_time) {
    const std::int64_t n = n_units - unit < at_a_time ? n_units - unit : at_a_time;
    const std::byte* low[kLowPlanes] = {};
    for (int i = 0; i < kLowPlanes && of.low_bytes > 0; ++i)
      low[i] = low_of(matrix, i, panel) + unit * of.low_bytes;
    of.unpack(panel_of(matrix, panel) + unit * of.unit_bytes, low, n, unpacked);
    for (std::int64_t c = 0; c < n_columns; c += kTileColumns) {
      const std::byte* from[kTileColumns];
      for (int i = 0; i < kTileColumns; ++i) from[i] = x[c + i] + unit * of.x_bytes;
      of.multiply(unpacked, {}, n, from, out + c * kPanelRows);
    }
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
