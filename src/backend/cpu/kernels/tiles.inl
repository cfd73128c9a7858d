// Matrix products: tiles of panels times columns, in the order in which they are made, and what becomes of
// each. Needs matmul.inl (the micro-kernels), unpacked.inl, low_rank.inl, best.inl and log_sum.inl.
#include <cstddef>
#include <cstdint>

namespace weft::cpu::WEFT_CPU_ISA::panel {

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

/// A panel's part of a column's sum, and the value that is picked where it is among these.
static void add_log_sum(const LogSumArgs& sums, std::int64_t first_index, std::int64_t n_rows,
                        std::int64_t column, const float* values) {
  static_assert(kLogSumPart == kPanelRows);
  const std::int32_t id = sums.ids[column];
  if (id == kNoLogSum) return;
  const std::int64_t part = column * sums.stride + first_index / kLogSumPart;
  log_sum_part(values, static_cast<int>(n_rows), sums.largest + part, sums.sums + part);
  if (id >= first_index && id < first_index + n_rows) sums.picked[column] = values[id - first_index];
}

/// Offers the rows of a panel's tile to the lists of its columns, and writes the rows that are wanted in
/// full.
static void offer_tile(const MatmulArgs& args, std::int64_t row, std::int64_t n_rows,
                       std::int64_t first_column, int n_columns, float* tile) {
  const BestArgs& best = args.best;
  if (best.softcap > 0.0f) softcap_row(tile, best.softcap, kPanelRows * n_columns, tile);
  for (int c = 0; c < n_columns; ++c) {
    const std::int64_t column = first_column + c;
    const float* const values = tile + kPanelRows * c;
    offer_best(values, static_cast<int>(n_rows), best.first_index + static_cast<std::int32_t>(row),
               wanted_best(best.counts, column, best.n), best.lists + column * best.n);
    if (args.log_sums.ids != nullptr)
      add_log_sum(args.log_sums, best.first_index + row, n_rows, column, values);
    if (best.first_copy == nullptr) continue;
    for (std::int32_t copy = best.first_copy[column]; copy >= 0; copy = best.next_copy[copy])
      write_rows(values, nullptr, n_rows, args.out + copy * args.out_stride + row);
  }
}

/// Rows of a panel; fewer in the last one.
static inline std::int64_t rows_of_panel(const PackedMatrix& matrix, std::int64_t panel) {
  const std::int64_t left = matrix.rows - panel * kPanelRows;
  return left < kPanelRows ? left : kPanelRows;
}

/// The epilogue of a panel's tile: its sums, and the sums of the gate's panel, become rows of the output.
/// `rows`: the output rows that the columns write.
static void finish_tile(const MatmulArgs& args, std::int64_t panel, std::int64_t first_column,
                        const std::int64_t* rows, int n_columns, float* tile, float* gate_tile) {
  const std::int64_t row = panel * kPanelRows;
  const std::int64_t n_rows = rows_of_panel(*args.weight, panel);
  if (args.gate != nullptr) {
    glu_row(args.activation, gate_tile, tile, kPanelRows * n_columns, tile);
  } else if (args.activation != Activation::kNone) {
    activation_row(args.activation, tile, kPanelRows * n_columns, tile);
  }
  if (args.best.lists != nullptr) return offer_tile(args, row, n_rows, first_column, n_columns, tile);
  for (int c = 0; c < n_columns; ++c) {
    const std::int64_t at = rows[c] * args.out_stride + row;
    write_rows(tile + kPanelRows * c, args.residual != nullptr ? args.residual + at : nullptr, n_rows,
               args.out + at);
  }
}

/// Activations that stay in the second-level cache while the panels pass by.
inline constexpr std::int64_t kActivationBytes = 512 * 1024;

/// Columns whose activations stay there: whole tiles.
static inline std::int64_t columns_at_a_time(const MatmulArgs& args) {
  const auto row_bytes = static_cast<std::int64_t>(args.x_row_bytes);
  const std::int64_t n = row_bytes > 0 ? kActivationBytes / row_bytes / kTileColumns * kTileColumns : 0;
  return n < kTileColumns ? kTileColumns : n;
}

/// Where rows of activations are, and which rows of the output they write.
static inline void find_rows(const MatmulArgs& args, std::int64_t first_column, std::int64_t n_columns,
                             const std::byte** x, std::int64_t* out_rows) {
  for (std::int64_t c = 0; c < n_columns; ++c) {
    const std::int64_t x_row = args.x_rows != nullptr ? args.x_rows[first_column + c] : first_column + c;
    x[c] = args.x + x_row * static_cast<std::int64_t>(args.x_row_bytes);
    out_rows[c] = args.out_rows != nullptr ? args.out_rows[first_column + c] : first_column + c;
  }
}

/// Whole tiles of columns, with panels that are unpacked.
static void matmul_unpacked(const MatmulArgs& args, const Unpacking& unpacking, const Unpacking* of_gate,
                            Range panels, Range columns) {
  std::int64_t block = columns_at_a_time(args);
  if (block < kUnpackedFrom) block = kUnpackedFrom;
  if (block > kUnpackedColumns) block = kUnpackedColumns;
  alignas(64) float tiles[kUnpackedColumns * kPanelRows];
  alignas(64) float gate_tiles[kUnpackedColumns * kPanelRows];
  const std::byte* x[kUnpackedColumns];
  std::int64_t out_rows[kUnpackedColumns];
  const LowRankTiles added(args.low_rank), gate_added(args.gate_low_rank);
  for (std::int64_t begin = columns.begin; begin < columns.end; begin += block) {
    const std::int64_t n_columns = columns.end - begin < block ? columns.end - begin : block;
    find_rows(args, begin, n_columns, x, out_rows);
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      const auto multiply_all = [&](const PackedMatrix& matrix, const Unpacking& of, const float* bias,
                                    const LowRankTiles& added_to, float* to) {
        multiply_unpacked(matrix, of, p, x, n_columns, to);
        for (std::int64_t c = 0; c < n_columns; c += kTileColumns) {
          float* const tile = to + c * kPanelRows;
          if (bias != nullptr)
            add_to_columns(tile, kTileColumns, bias + p * kPanelRows, rows_of_panel(matrix, p));
          added_to.add_to(tile, p, 1, out_rows + c, kTileColumns);
        }
      };
      multiply_all(*args.weight, unpacking, args.bias, added, tiles);
      if (args.gate != nullptr) multiply_all(*args.gate, *of_gate, args.gate_bias, gate_added, gate_tiles);
      for (std::int64_t c = 0; c < n_columns; c += kTileColumns)
        finish_tile(args, p, begin + c, out_rows + c, kTileColumns, tiles + c * kPanelRows,
                    gate_tiles + c * kPanelRows);
    }
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA::panel

namespace weft::cpu::WEFT_CPU_ISA {

/// With packed panels.
static void matmul_packed(const MatmulArgs& args, Range panels, Range columns) {
  using namespace panel;
  const PackedMatrix& weight = *args.weight;
  const MultiplyTable* const table = multiply_table(weight);
  const MultiplyTable* const gate_table = args.gate != nullptr ? multiply_table(*args.gate) : nullptr;
  if (table == nullptr) __builtin_trap();  // Cannot be packed, so there is no such matrix.
  const std::int64_t n = (weight.columns + table->n_values - 1) / table->n_values;

  const std::int64_t block = columns_at_a_time(args);
  alignas(64) float tiles[kGatedPanels * kTile];
  alignas(64) float gate_tiles[kGatedPanels * kTile];
  const std::int64_t n_all = columns.end - columns.begin;
  const bool few_columns = n_all <= kTileColumns;
  const auto multiplies_short = [&](const MultiplyTable* one) {
    return one == nullptr || one->short_by_columns[n_all - 1] != nullptr;
  };
  const bool short_panels = weight.columns <= kShortPanel && n_all > 0 && few_columns &&
                            multiplies_short(table) && multiplies_short(gate_table);
  const std::int64_t group = !few_columns ? kTilePanels
                             : args.gate != nullptr || short_panels || args.low_rank.experts != nullptr
                                 ? kGatedPanels
                                 : 1;
  const LowRankTiles added(args.low_rank), gate_added(args.gate_low_rank);
  for (std::int64_t block_begin = columns.begin; block_begin < columns.end; block_begin += block) {
    const std::int64_t block_end = block_begin + block < columns.end ? block_begin + block : columns.end;
    for (std::int64_t p = panels.begin; p < panels.end; p += group) {
      const std::int64_t n_panels = panels.end - p < group ? panels.end - p : group;
      for (std::int64_t begin = block_begin; begin < block_end; begin += kTileColumns) {
        const int n_columns =
            static_cast<int>(block_end - begin < kTileColumns ? block_end - begin : kTileColumns);
        const std::byte* x[kTileColumns];
        std::int64_t out_rows[kTileColumns];
        find_rows(args, begin, n_columns, x, out_rows);
        const auto multiply_all = [&](const PackedMatrix& matrix, const MultiplyTable& of_matrix,
                                      const float* bias, const LowRankTiles& added_to, float* to) {
          const Multiply multiply = of_matrix.by_columns[n_columns - 1];
          if (short_panels) {
            of_matrix.short_by_columns[n_columns - 1](
                panel_of(matrix, p), static_cast<std::int64_t>(matrix.panel_bytes), n_panels, n, x, to);
          } else {
            for (std::int64_t i = 0; i < n_panels; ++i) {
              added_to.fetch(p + i, out_rows, n_columns);
              const std::byte* const low[] = {low_of(matrix, 0, p + i), low_of(matrix, 1, p + i)};
              multiply(panel_of(matrix, p + i), low, n, x, to + i * kTile);
            }
          }
          for (std::int64_t i = 0; i < n_panels && bias != nullptr; ++i)
            add_to_columns(to + i * kTile, n_columns, bias + (p + i) * kPanelRows,
                           rows_of_panel(matrix, p + i));
          added_to.add_to(to, p, n_panels, out_rows, n_columns);
        };
        multiply_all(weight, *table, args.bias, added, tiles);
        if (args.gate != nullptr)
          multiply_all(*args.gate, *gate_table, args.gate_bias, gate_added, gate_tiles);
        for (std::int64_t i = 0; i < n_panels; ++i)
          finish_tile(args, p + i, begin, out_rows, n_columns, tiles + i * kTile, gate_tiles + i * kTile);
      }
    }
  }
}

static void matmul(const MatmulArgs& args, Range panels, Range columns) {
  using namespace panel;
  const Unpacking* const of_weight = unpacking_of(*args.weight);
  const Unpacking* const of_gate = args.gate != nullptr ? unpacking_of(*args.gate) : of_weight;
  const std::int64_t n_whole = (columns.end - columns.begin) / kTileColumns * kTileColumns;
  if (of_weight == nullptr || of_gate == nullptr || n_whole < of_weight->least_columns ||
      n_whole < of_gate->least_columns)
    return matmul_packed(args, panels, columns);
  const Range whole = {columns.begin, columns.begin + n_whole}, rest = {whole.end, columns.end};
  if (rest.begin == rest.end) return matmul_unpacked(args, *of_weight, of_gate, panels, whole);
  // Both while panels are in a cache.
  for (std::int64_t p = panels.begin; p < panels.end; p += kTilePanels) {
    const Range group = {p, p + kTilePanels < panels.end ? p + kTilePanels : panels.end};
    matmul_unpacked(args, *of_weight, of_gate, group, whole);
    matmul_packed(args, group, rest);
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA
