// What adapters add to the tiles of a product (launches/low_rank.h). Needs matmul.inl.
#include <cstddef>
#include <cstdint>

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// Panels of a matrix of plain floats times rows, in the tiles of multiply_short_panels.
static void multiply_few(const MultiplyTable& table, const PackedMatrix& matrix, std::int64_t panel,
                         std::int64_t n_panels, const std::byte* const* x, int n_columns, float* out) {
  const std::byte* at = panel_of(matrix, panel);
  if (const MultiplyShort multiply = table.short_by_columns[n_columns - 1];
      multiply != nullptr && matrix.columns <= kShortPanel)
    return multiply(at, static_cast<std::int64_t>(matrix.panel_bytes), n_panels, matrix.columns, x, out);
  static constexpr const std::byte* kNoLow[kLowPlanes] = {};
  for (std::int64_t i = 0; i < n_panels; ++i, at += matrix.panel_bytes)
    table.by_columns[n_columns - 1](at, kNoLow, matrix.columns, x, out + i * kTile);
}

/// What adapters add to the tiles of some panels. Neighbours that have the same one are multiplied together.
class LowRankTiles {
 public:
  explicit LowRankTiles(const LowRankArgs& args)
      : args_(args), table_(args.experts != nullptr ? multiply_table(args.experts[0]) : nullptr) {}

  /// Prefetches the data of a panel for the columns' first uses. Call it before the product's own panel is
  /// multiplied: a core drops prefetches that come faster than memory responds.
  void fetch(std::int64_t panel, const std::int64_t* rows, int n_columns) const {
    if (table_ == nullptr) return;
    std::int32_t last = -1;
    for (int c = 0; c < n_columns; ++c) {
      const UseRange uses = args_.uses[rows[c]];
      if (uses.begin == uses.end || args_.ids[uses.begin] == last) continue;
      last = args_.ids[uses.begin];
      const std::byte* const begin = panel_of(args_.experts[last], panel);
      const auto n_bytes = static_cast<std::int64_t>(args_.experts[last].panel_bytes);
      for (std::int64_t at = 0; at < n_bytes; at += 64) __builtin_prefetch(begin + at, 0, 2);
    }
  }

  /// `rows`: the output rows that the columns write.
  void add_to(float* tiles, std::int64_t panel, std::int64_t n_panels, const std::int64_t* rows,
              int n_columns) const {
    if (table_ == nullptr) return;
    alignas(64) float products[kGatedPanels * kTile];
    const std::byte* x[kTileColumns];
    const auto multiply = [&](std::int32_t expert, int n) {
      multiply_few(*table_, args_.experts[expert], panel, n_panels, x, n, products);
    };
    for (int c = 0, n = 0; c < n_columns; c += n) {
      n = 1;
      const UseRange uses = args_.uses[rows[c]];
      if (uses.begin == uses.end) continue;
      const std::int32_t expert = args_.ids[uses.begin];
      if (uses.end - uses.begin > 1) {
        add_mean(tiles + 16 * c, uses, n_panels, products, [&](std::int32_t use) {
          x[0] = low_of_use(use);
          multiply(args_.ids[use], 1);
        });
        continue;
      }
      x[0] = low_of_use(uses.begin);
      for (; c + n < n_columns; ++n) {
        const UseRange next = args_.uses[rows[c + n]];
        if (next.end - next.begin != 1 || args_.ids[next.begin] != expert) break;
        x[n] = low_of_use(next.begin);
      }
      multiply(expert, n);
      add_panels(products, kTile, n_panels, n, tiles + 16 * c, kTile);
    }
  }

 private:
  const std::byte* low_of_use(std::int32_t use) const {
    return reinterpret_cast<const std::byte*>(args_.low + use * args_.experts[0].columns);
  }
  /// to += from, for n_columns columns of each panel.
  static void add_panels(const float* from, int from_stride, std::int64_t n_panels, int n_columns, float* to,
                         int to_stride) {
    for (std::int64_t i = 0; i < n_panels; ++i, from += from_stride, to += to_stride)
      for (int c = 0; c < n_columns; ++c)
        store_f32(to + 16 * c, add(load_f32(to + 16 * c), load_f32(from + 16 * c)));
  }
  /// In the order of the uses.
  template <class F>
  static void add_mean(float* tiles, UseRange uses, std::int64_t n_panels, const float* product, F multiply) {
    alignas(64) float mean[kGatedPanels * kPanelRows] = {};
    for (std::int32_t use = uses.begin; use < uses.end; ++use) {
      multiply(use);
      add_panels(product, kTile, n_panels, 1, mean, kPanelRows);
    }
    const Floats share = splat(1.0f / static_cast<float>(uses.end - uses.begin));
    for (std::int64_t i = 0; i < n_panels; ++i)
      store_f32(mean + i * kPanelRows, mul(load_f32(mean + i * kPanelRows), share));
    add_panels(mean, kPanelRows, n_panels, 1, tiles, kTile);
  }

  const LowRankArgs& args_;
  const MultiplyTable* table_;
};

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
