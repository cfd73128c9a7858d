// Matrix products over packed panels: one micro-kernel (16 rows x up to kTileColumns columns), instantiated
// for each layout and number of columns. Needs matmul_vec_<isa>.h, rows.inl (activations) and WEFT_CPU_ISA.
//
// A column's result is the same whatever tile it falls into: integer sums are exact, and its float sums
// follow the records of the panel, one multiply-add (two with a min) a record.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/packed_layout.h"

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// With a few columns there is so much to do for each line of a panel that the processor does not see far
/// enough ahead to keep memory busy: fetches what lies that far behind `p` into the second-level cache (into
/// the first, its few misses in flight would be the limit). All lines, or those left out cost more than the
/// others save. With one column the hardware's own prefetching is the best there is.
template <int kAhead, int kBytes, int kColumns>
static inline __attribute__((always_inline)) void prefetch(const std::byte* p) {
  if constexpr (kColumns == 1) return;
  for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(p + kAhead + line, 0, 2);
}
/// The best distances of those measured.
inline constexpr int kQuantisedAhead = 8192;
inline constexpr int kFloatsAhead = 6144;

constexpr int seven_minus_log2(int n) { return n <= 1 ? 7 : seven_minus_log2(n / 2) - 1; }

/// What a layout means for the arithmetic.
template <int kLayoutIndex>
struct Traits {
  static constexpr PanelLayout kLayout = kPanelLayouts[kLayoutIndex];
  static constexpr ScaleKind kScales = kLayout.scales;
  static constexpr bool kTable = kLayout.table[0] != 0;
  static constexpr bool kMin =
      kScales == ScaleKind::kHalfMin || kScales == ScaleKind::kSuperMin || kScales == ScaleKind::kSuper16Min;
  static constexpr bool kTwoHalves = kScales == ScaleKind::kSuper16 || kScales == ScaleKind::kSuper16Min;
  static constexpr int kBaseBits = plane_bits(kLayout.base);
  static constexpr int kBaseBytes = plane_bytes(kLayout.base);
  static constexpr int kCodeBytes = kBaseBytes + plane_bytes(kLayout.extra);
  static constexpr int kRecordBytes = record_bytes(kLayout);
  static constexpr int kHeaderBytes = header_bytes(kScales);
  static constexpr int kSuperRecords = super_records(kScales);
  // The widest entry of a table is its last positive or, in IQ4's, the last of all; either way below 32 or
  // above 63.
  static constexpr int kMaxCode =
      kTable ? (kLayout.table[15] > 63 ? 255 : 31) : (1 << (kBaseBits + plane_bits(kLayout.extra))) - 1;
  static constexpr int kStartShift = seven_minus_log2(kLayout.zero);
};

/// Codes of columns 4j .. 4j+3 (of eight such groups) of a record.
template <class T, int j>
static inline __attribute__((always_inline)) Codes codes_of(const std::byte* record, Codes table) {
  Codes c;
  if constexpr (T::kLayout.base == Plane::kBytes) {
    c = load_codes(record + 64 * j);
  } else if constexpr (T::kLayout.base == Plane::kNibbles) {
    c = shifted_bits < j<4 ? 0 : 4, 15>(load_codes(record + 64 * (j % 4)));
  } else {
    static_assert(T::kLayout.base == Plane::kPairs);
    c = shifted_bits<2 * (j % 4), 3>(load_codes(record + 64 * (j / 4)));
  }
  const std::byte* const extra = record + T::kBaseBytes;
  if constexpr (T::kLayout.extra == Plane::kBits) {
    c = or_shifted_bits<j - T::kBaseBits, 1 << T::kBaseBits>(c, load_codes(extra));
  } else if constexpr (T::kLayout.extra == Plane::kPairs) {
    c = or_shifted_bits<2 * (j % 4) - T::kBaseBits, 3 << T::kBaseBits>(c, load_codes(extra + 64 * (j / 4)));
  }
  if constexpr (T::kTable) c = look_up(table, c);
  return c;
}

/// Adds the products of half a record (16 columns) to the sums of all columns.
template <class T, int kHalf, int kColumns>
static inline __attribute__((always_inline)) void add_half(const std::byte* record, Codes table,
                                                           const std::byte* const (&x)[kColumns],
                                                           std::ptrdiff_t group, Ints (&sums)[kColumns]) {
  constexpr int j = 4 * kHalf;
  const Codes codes[4] = {codes_of<T, j>(record, table), codes_of<T, j + 1>(record, table),
                          codes_of<T, j + 2>(record, table), codes_of<T, j + 3>(record, table)};
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
    const auto* q = reinterpret_cast<const Q8Group*>(x[c] + group)->q;
    sums[c] = dot<T::kMaxCode>(sums[c], codes, q + 16 * kHalf);
  }
}

/// out[c][16] = a panel times the kQ8 rows x[c].
template <int kLayoutIndex, int kColumns>
static void multiply_quantised(const std::byte* panel, std::int64_t n_records, const std::byte* const* rows,
                               float* out) {
  using T = Traits<kLayoutIndex>;
  const std::byte* x[kColumns];
  Floats total[kColumns];
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
    x[c] = rows[c];
    total[c] = zero_floats();
  }
  Codes table{};
  if constexpr (T::kTable) table = load_table(kPanelLayouts[kLayoutIndex].table);

  std::ptrdiff_t group = 0;
  for (std::int64_t left = n_records; left > 0; left -= T::kSuperRecords) {
    Floats d{}, d_min{};
    // A record's lines may end before its last byte does; two of them hold any header.
    prefetch<kQuantisedAhead, T::kHeaderBytes == 0 ? 0 : 128, kColumns>(panel);
    if constexpr (T::kHeaderBytes > 0) d = load_f16(panel);
    if constexpr (T::kHeaderBytes > 32) d_min = load_f16(panel + 32);
    panel += T::kHeaderBytes;

#pragma GCC unroll 1
    for (int i = 0; i < T::kSuperRecords; ++i) {
      prefetch<kQuantisedAhead, T::kRecordBytes, kColumns>(panel);
      const std::byte* const scales = panel + T::kCodeBytes;
      Ints sums[kColumns];

      if constexpr (T::kTwoHalves) {
        constexpr bool kNibbles = T::kScales == ScaleKind::kSuper16Min;
        Floats part[kColumns];
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) {
          const auto* g = reinterpret_cast<const Q8Group*>(x[c] + group);
          sums[c] = T::kMin ? zero_ints() : start<T::kStartShift, T::kMaxCode>(&g->offset_half);
        }
        add_half<T, 0, kColumns>(panel, table, x, group, sums);
        const Floats first = mul(d, kNibbles ? load_low_nibbles(scales) : load_i8(scales));
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) {
          const auto* g = reinterpret_cast<const Q8Group*>(x[c] + group);
          part[c] = mul(to_floats(sums[c]), first);
          sums[c] =
              T::kMin ? zero_ints() : start_rest<T::kStartShift, T::kMaxCode>(&g->offset, &g->offset_half);
        }
        if constexpr (T::kMin) {
          const Floats min_first = mul(d_min, load_high_nibbles(scales));
          const Floats min_second = mul(d_min, load_high_nibbles(scales + 16));
#pragma GCC unroll 8
          for (int c = 0; c < kColumns; ++c) {
            // The halves' -sum(q), from offset = -128 * sum(q): a min of this kind is stored negated.
            const auto* g = reinterpret_cast<const Q8Group*>(x[c] + group);
            part[c] = multiply_add(to_floats(start<7, 0>(&g->offset_half)), min_first, part[c]);
            part[c] =
                multiply_add(to_floats(start_rest<7, 0>(&g->offset, &g->offset_half)), min_second, part[c]);
          }
        }
        add_half<T, 1, kColumns>(panel, table, x, group, sums);
        const Floats second = mul(d, kNibbles ? load_low_nibbles(scales + 16) : load_i8(scales + 16));
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) {
          const auto* g = reinterpret_cast<const Q8Group*>(x[c] + group);
          part[c] = multiply_add(to_floats(sums[c]), second, part[c]);
          total[c] = multiply_add(part[c], splat(&g->scale), total[c]);
        }
      } else {
        Floats scale, min{};
        if constexpr (T::kScales == ScaleKind::kHalf || T::kScales == ScaleKind::kHalfMin)
          scale = load_f16(scales);
        if constexpr (T::kScales == ScaleKind::kHalfMin) min = load_f16(scales + 32);
        if constexpr (T::kScales == ScaleKind::kExponent) scale = load_exponents(scales);
        if constexpr (T::kScales == ScaleKind::kSuper) scale = mul(d, load_i8(scales));
        if constexpr (T::kScales == ScaleKind::kSuperMin) {
          scale = mul(d, load_u8(scales));
          min = mul(d_min, load_u8(scales + 16));
        }
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) {
          const auto* g = reinterpret_cast<const Q8Group*>(x[c] + group);
          sums[c] = T::kMin ? zero_ints() : start<T::kStartShift, T::kMaxCode>(&g->offset);
        }
        add_half<T, 0, kColumns>(panel, table, x, group, sums);
        add_half<T, 1, kColumns>(panel, table, x, group, sums);
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) {
          const auto* g = reinterpret_cast<const Q8Group*>(x[c] + group);
          total[c] = multiply_add(to_floats(sums[c]), mul(scale, splat(&g->scale)), total[c]);
          if constexpr (T::kMin) total[c] = multiply_add(min, splat(&g->scaled_sum), total[c]);
        }
      }
      panel += T::kRecordBytes;
      group += static_cast<std::ptrdiff_t>(sizeof(Q8Group));
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) store_f32(out + 16 * c, total[c]);
}

/// out[c][16] = a panel of floats times the float rows x[c]. Each record has a sum of its own, which is added
/// to the total: errors grow with 32 + K / 32 terms, not with K.
template <int kLayoutIndex, int kColumns>
static void multiply_floats(const std::byte* panel, std::int64_t n_values, const std::byte* const* rows,
                            float* out) {
  using T = Traits<kLayoutIndex>;
  constexpr int kStep = T::kLayout.element_bytes * kPanelRows;
  const float* x[kColumns];
  Floats total[kColumns];
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
    x[c] = reinterpret_cast<const float*>(rows[c]);
    total[c] = zero_floats();
  }
  for (std::int64_t begin = 0; begin < n_values; begin += kBlockColumns) {
    const std::int64_t end = begin + kBlockColumns < n_values ? begin + kBlockColumns : n_values;
    Floats sums[kColumns];
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) sums[c] = zero_floats();
#pragma GCC unroll 4
    for (std::int64_t k = begin; k < end; ++k) {
      if (k * kStep % 64 == 0) prefetch<kFloatsAhead, 64, kColumns>(panel);
      Floats w;
      if constexpr (T::kLayout.dtype == DType::kF32) w = load_f32(panel);
      if constexpr (T::kLayout.dtype == DType::kF16) w = load_f16(panel);
      if constexpr (T::kLayout.dtype == DType::kBF16) w = load_bf16(panel);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) sums[c] = multiply_add(w, splat(x[c] + k), sums[c]);
      panel += kStep;
    }
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) total[c] = add(total[c], sums[c]);
  }
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) store_f32(out + 16 * c, total[c]);
}

using Multiply = void (*)(const std::byte* panel, std::int64_t n, const std::byte* const* rows, float* out);

/// The micro-kernels of a layout, by number of columns.
struct MultiplyTable {
  Multiply by_columns[kTileColumns];
  bool floats;
};
template <int kLayoutIndex, int kColumns>
constexpr void fill(MultiplyTable& table) {
  table.floats = kPanelLayouts[kLayoutIndex].element_bytes > 0;
  if constexpr (kPanelLayouts[kLayoutIndex].element_bytes > 0) {
    table.by_columns[kColumns - 1] = multiply_floats<kLayoutIndex, kColumns>;
  } else {
    table.by_columns[kColumns - 1] = multiply_quantised<kLayoutIndex, kColumns>;
  }
  if constexpr (kColumns > 1) fill<kLayoutIndex, kColumns - 1>(table);
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

static const MultiplyTable* multiply_table(DType dtype) {
  for (int i = 0; i < kNumPanelLayouts; ++i) {
    if (kPanelLayouts[i].dtype == dtype) return &kMultiply.of[i];
  }
  return nullptr;
}

/// 16 values of a vector of weights, zero past its end.
static void copy_padded(const float* from, std::int64_t n, float (&to)[kPanelRows]) {
  for (int i = 0; i < kPanelRows; ++i) to[i] = i < n ? from[i] : 0.0f;
}

static void add_to_columns(float* tile, int n_columns, const float* bias, std::int64_t n_rows) {
  alignas(64) float padded[kPanelRows];
  copy_padded(bias, n_rows, padded);
  const Floats b = load_f32(padded);
  for (int c = 0; c < n_columns; ++c) store_f32(tile + 16 * c, add(load_f32(tile + 16 * c), b));
}

/// out[0..n) = tile [+ residual]
static inline void write_rows(const float* tile, const float* residual, std::int64_t n, float* out) {
  if (n == kPanelRows) {
    const Floats y = load_f32(tile);
    store_f32(out, residual != nullptr ? add(y, load_f32(residual)) : y);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) out[i] = residual != nullptr ? tile[i] + residual[i] : tile[i];
}

/// The epilogue of a panel's tile: its sums, and those of the gate's panel, become rows of the output.
static void finish_tile(const MatmulArgs& args, std::int64_t panel, std::int64_t first_column, int n_columns,
                        float* tile, float* gate_tile) {
  const std::int64_t row = panel * kPanelRows;
  const std::int64_t n_rows = args.weight->rows - row < kPanelRows ? args.weight->rows - row : kPanelRows;
  if (args.bias != nullptr) add_to_columns(tile, n_columns, args.bias + row, n_rows);
  if (args.gate != nullptr) {
    if (args.gate_bias != nullptr) add_to_columns(gate_tile, n_columns, args.gate_bias + row, n_rows);
    glu_row(args.activation, gate_tile, tile, kPanelRows * n_columns, tile);
  } else if (args.activation != Activation::kNone) {
    activation_row(args.activation, tile, kPanelRows * n_columns, tile);
  }
  for (int c = 0; c < n_columns; ++c) {
    const std::int64_t out_row =
        args.out_rows != nullptr ? args.out_rows[first_column + c] : first_column + c;
    const std::int64_t at = out_row * args.out_stride + row;
    write_rows(tile + kPanelRows * c, args.residual != nullptr ? args.residual + at : nullptr, n_rows,
               args.out + at);
  }
}

/// With few columns a matrix and its gate are two streams from memory, and each change from one to the other
/// costs some of its accesses: so many panels of one go before those of the other.
inline constexpr int kGatedPanels = 16;

/// Activations that stay in the second-level cache while the panels pass by.
inline constexpr std::int64_t kActivationBytes = 512 * 1024;

}  // namespace weft::cpu::WEFT_CPU_ISA::panel

namespace weft::cpu::WEFT_CPU_ISA {

static void matmul(const MatmulArgs& args, Range panels, Range columns) {
  using namespace panel;
  const PackedMatrix& weight = *args.weight;
  const MultiplyTable* const table = multiply_table(weight.dtype);
  if (table == nullptr) return;  // Cannot be packed, so there is no such matrix.
  const std::int64_t n =
      table->floats ? weight.columns : (weight.columns + kBlockColumns - 1) / kBlockColumns;

  const std::int64_t row_bytes = static_cast<std::int64_t>(args.x_row_bytes);
  std::int64_t block =
      row_bytes > 0 ? kActivationBytes / row_bytes / kTileColumns * kTileColumns : kTileColumns;
  if (block < kTileColumns) block = kTileColumns;

  constexpr int kTile = kTileColumns * kPanelRows;
  alignas(64) float tiles[kGatedPanels * kTile];
  alignas(64) float gate_tiles[kGatedPanels * kTile];
  const bool two_streams = args.gate != nullptr && columns.end - columns.begin <= kTileColumns;
  const std::int64_t group = two_streams ? kGatedPanels : 1;
  for (std::int64_t block_begin = columns.begin; block_begin < columns.end; block_begin += block) {
    const std::int64_t block_end = block_begin + block < columns.end ? block_begin + block : columns.end;
    for (std::int64_t p = panels.begin; p < panels.end; p += group) {
      const std::int64_t n_panels = panels.end - p < group ? panels.end - p : group;
      for (std::int64_t begin = block_begin; begin < block_end; begin += kTileColumns) {
        const int n_columns =
            static_cast<int>(block_end - begin < kTileColumns ? block_end - begin : kTileColumns);
        const std::byte* x[kTileColumns];
        for (int c = 0; c < n_columns; ++c) {
          const std::int64_t x_row = args.x_rows != nullptr ? args.x_rows[begin + c] : begin + c;
          x[c] = args.x + x_row * row_bytes;
        }
        const Multiply multiply = table->by_columns[n_columns - 1];
        const auto multiply_all = [&](const PackedMatrix& matrix, float* to) {
          const std::byte* panel = matrix.data + static_cast<std::size_t>(p) * matrix.panel_bytes;
          for (std::int64_t i = 0; i < n_panels; ++i, panel += matrix.panel_bytes)
            multiply(panel, n, x, to + i * kTile);
        };
        multiply_all(weight, tiles);
        if (args.gate != nullptr) multiply_all(*args.gate, gate_tiles);
        for (std::int64_t i = 0; i < n_panels; ++i)
          finish_tile(args, p + i, begin, n_columns, tiles + i * kTile, gate_tiles + i * kTile);
      }
    }
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA
