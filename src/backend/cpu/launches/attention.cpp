#include "backend/cpu/launches/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "backend/cpu/layout/cache_layout.h"
#include "base/to_size.h"

namespace weft::cpu {
namespace {

// A thread should find this many tasks, so that no core waits long for another's last one.
constexpr std::int64_t kAttentionTasksPerThread = 4;
// A task of shared pages reads this many at least: a page's partial costs about a twentieth of reading it.
constexpr std::int64_t kPagesPerPart = 4;
// Tiles with more rows have enough to do, and their partials would be large. If there are more rows and yet
// too few tiles, tiles have this many rows (max_rows).
constexpr int kMaxSharedRows = 4;

/// The number of extents at the beginning of both that have the same pages at the same positions.
int n_common(const AttentionSegment& a, const AttentionSegment& b, int max) {
  int n = 0;
  max = std::min({max, a.n_extents, b.n_extents});
  while (n < max && a.extents[n].page == b.extents[n].page && a.extents[n].base == b.extents[n].base &&
         a.extents[n].divisor == b.extents[n].divisor && a.extents[n].offset == b.extents[n].offset)
    ++n;
  return n;
}

/// Texts that begin in the same page come together, in the order of the batch.
bool comes_before(const AttentionSegment& a, const AttentionSegment& b) {
  const std::int32_t page_a = a.n_extents > 0 ? a.extents[0].page : -1;
  const std::int32_t page_b = b.n_extents > 0 ? b.extents[0].page : -1;
  return page_a != page_b ? page_a < page_b : a.row_begin < b.row_begin;
}

std::vector<float> alibi_slopes(const ops::Attention& op) {
  const auto n_first = static_cast<int>(std::bit_floor(static_cast<unsigned>(op.n_heads)));
  std::vector<float> slopes;
  for (int head = 0; head < op.n_heads; ++head) {
    const float step =
        head < n_first ? static_cast<float>(head + 1) : static_cast<float>(head - n_first) + 0.5f;
    slopes.push_back(std::exp2(-op.alibi * step / static_cast<float>(n_first)));
  }
  return slopes;
}

int n_kv_heads_of(const Graph& graph, const ops::Attention::Inputs& inputs) {
  return static_cast<int>(graph.value(inputs.k).shape[1].constant());
}

}  // namespace

AttentionTiles::AttentionTiles(const Graph& graph, const ops::Attention::Inputs& inputs)
    : inputs_(inputs),
      rows_(graph.value(inputs.positions).shape[0]),
      table_width_(graph.value(inputs.extents).shape[1].constant()),
      n_kv_heads_(n_kv_heads_of(graph, inputs)) {
  // The worst case: every row of another sequence than the row before.
  const auto max_rows = to_size(rows_.value(graph.bounds()));
  row_order_.resize(max_rows);
  segments_.resize(max_rows);
  tiles_.resize(max_rows);
}

bool AttentionTiles::serves(const Graph& graph, const ops::Attention::Inputs& inputs) const {
  return inputs.positions == inputs_.positions && inputs.sequences == inputs_.sequences &&
         inputs.extents == inputs_.extents && inputs.counts == inputs_.counts &&
         n_kv_heads_of(graph, inputs) == n_kv_heads_;
}

std::size_t AttentionTiles::held_bytes() const {
  return row_order_.size() * sizeof(row_order_[0]) + segments_.size() * sizeof(segments_[0]) +
         tiles_.size() * sizeof(tiles_[0]);
}

void AttentionTiles::bind(const Addresses& addresses) {
  sequences_ = addresses.plain<const std::int32_t>(inputs_.sequences);
  extents_ = addresses.plain<const Extent>(inputs_.extents);
  counts_ = addresses.plain<const std::int32_t>(inputs_.counts);
}

void AttentionTiles::cut_into_segments(std::int64_t n_rows, std::int64_t max_rows) {
  n_segments_ = 0;
  for (std::int64_t row = 0; row < n_rows;) {
    const std::int32_t sequence = sequences_[row];
    std::int64_t end = row;
    while (end < n_rows && sequences_[end] == sequence) ++end;
    // Segments of about the same length, so that two are never put together again.
    const std::int64_t n_pieces = (end - row + max_rows - 1) / max_rows;
    const std::int64_t piece = (end - row + n_pieces - 1) / n_pieces;
    for (; row < end; row += piece)
      segments_[n_segments_++] = {static_cast<int>(row), static_cast<int>(std::min(piece, end - row)),
                                  extents_ + sequence * table_width_, counts_[sequence]};
    row = end;
  }
}

void AttentionTiles::add_tile(std::size_t begin, std::size_t end, int n_shared) {
  AttentionTile& tile = tiles_[n_tiles_++];
  tile = {row_order_.data() + n_ordered_, 0, segments_.data() + begin, static_cast<int>(end - begin),
          n_shared};
  for (std::size_t s = begin; s < end; ++s) {
    AttentionSegment& segment = segments_[s];
    for (int r = 0; r < segment.n_rows; ++r) row_order_[n_ordered_++] = segment.row_begin + r;
    segment.row_begin = tile.n_rows;
    tile.n_rows += segment.n_rows;
  }
}

void AttentionTiles::prepare(const StepInfo& step) {
  if (step_ == step.number) return;
  step_ = step.number;
  n_tiles_ = n_ordered_ = 0;
  const std::int64_t n_rows = rows_.value(step.symbols);
  const std::int64_t rows_for_all = n_rows * n_kv_heads_ / (kAttentionTasksPerThread * step.n_threads);
  const std::int64_t max_rows = std::clamp<std::int64_t>(rows_for_all, kMaxSharedRows, kAttentionRows);
  cut_into_segments(n_rows, max_rows);
  const auto segments = segments_.begin();
  std::sort(segments, segments + static_cast<std::ptrdiff_t>(n_segments_), comes_before);

  for (std::size_t begin = 0; begin < n_segments_;) {
    std::int64_t n_tile_rows = segments_[begin].n_rows;
    int n_shared = segments_[begin].n_extents;
    std::size_t end = begin + 1;
    for (; end < n_segments_ && n_tile_rows + segments_[end].n_rows <= max_rows; ++end) {
      // The last extents differ in any case: each sequence continues by itself.
      const int common = n_common(segments_[begin], segments_[end], n_shared);
      if (common == 0) break;
      n_shared = common;
      n_tile_rows += segments_[end].n_rows;
    }
    add_tile(begin, end, end - begin > 1 ? n_shared : 0);
    begin = end;
  }
  cut_into_parts(step.n_threads);
}

void AttentionTiles::cut_into_parts(int n_threads) {
  n_parts_ = 1;
  const std::int64_t n_pairs = static_cast<std::int64_t>(n_tiles_) * n_kv_heads_;
  const std::int64_t n_wanted = kAttentionTasksPerThread * n_threads;
  if (n_threads == 1 || n_pairs == 0 || n_pairs >= n_wanted || n_pairs > kMaxSharedPairs) return;
  max_pages_ = 0;
  for (const AttentionTile& tile : tiles()) {
    if (tile.n_rows > kMaxSharedRows) return;
    max_pages_ = std::max(max_pages_, attention_pages(tile));
  }
  std::int64_t parts = (n_wanted + n_pairs - 1) / n_pairs;
  while (n_pairs * parts % n_threads != 0) ++parts;  // As many for each thread.
  parts = std::min(parts, max_pages_ / kPagesPerPart);
  if (parts < 2) return;
  n_parts_ = static_cast<int>(parts);
  for (std::int64_t pair = 0; pair < n_pairs; ++pair) parts_left(pair) = n_parts_;
}

void AttentionTiles::reserve_partials(std::size_t floats_per_page) {
  floats_per_pair_ = std::max(floats_per_pair_, floats_per_page * to_size(max_pages_));
  const std::size_t bytes = n_tiles_ * to_size(n_kv_heads_) * floats_per_pair_ * sizeof(float);
  // Room to grow: sequences get more pages again and again.
  if (bytes > memory_.size()) memory_ = base::Memory(2 * bytes, false);
}

AttentionLaunch::AttentionLaunch(const Graph& graph, const Node& node, std::shared_ptr<AttentionTiles> tiles,
                                 bool first)
    : inputs_(named_inputs<ops::Attention>(node)),
      output_(node.output),
      tiles_(std::move(tiles)),
      first_(first) {
  const auto& op = *get_op<ops::Attention>(node);
  const ValueInfo& keys = graph.value(inputs_.k);
  const ValueInfo& values = graph.value(inputs_.v);
  args_.layout = {keys.dtype, values.dtype, static_cast<int>(keys.shape[1].constant()),
                  static_cast<int>(keys.shape[2].constant()), static_cast<int>(values.shape[2].constant())};
  args_.n_heads = op.n_heads;
  args_.q_stride = graph.value(inputs_.q).shape.columns();
  args_.out_stride = graph.value(node.output).shape.columns();
  args_.scale = op.scale;
  args_.softcap = op.softcap;
  args_.window = op.window;
  args_.chunked = op.chunked;
  if (op.alibi != 0.0f) slopes_ = alibi_slopes(op);
  if (!slopes_.empty()) args_.slopes = slopes_.data();
  if (inputs_.head_terms != kNoValue && graph.value(inputs_.head_terms).shape.rank() == 2)
    args_.n_distances = static_cast<int>(graph.value(inputs_.head_terms).shape[1].constant());
}

bool AttentionLaunch::make_form(Form form) {
  if (quantised_.used() || head_columns() % group_columns(form) != 0) return false;
  quantised_ = QuantisedOutput(form, args_.out_stride, 0);
  return true;
}

void AttentionLaunch::quantise(const AttentionTile& tile, int kv_head, const Kernels& kernels) const {
  if (!quantised_.used()) return;
  const Range columns = {kv_head * head_columns(), (kv_head + 1) * head_columns()};
  quantised_.write(kernels, tile.rows, {0, tile.n_rows}, columns);
}

void AttentionLaunch::bind(const Addresses& addresses) {
  tiles_->bind(addresses);
  args_.q = addresses.plain<const float>(inputs_.q);
  args_.k_cache = addresses.plain<const std::byte>(inputs_.k);
  args_.v_cache = addresses.plain<const std::byte>(inputs_.v);
  args_.positions = addresses.plain<const std::int32_t>(inputs_.positions);
  args_.ends = addresses.plain<const std::int32_t>(inputs_.ends);
  args_.hidden_first = addresses.plain<const std::int32_t>(inputs_.hidden_first);
  args_.hidden = addresses.plain<const HiddenCells>(inputs_.hidden);
  if (inputs_.head_terms != kNoValue)
    (args_.n_distances > 0 ? args_.distance_bias : args_.sinks) =
        addresses.plain<const float>(inputs_.head_terms);
  args_.out = addresses.plain<float>(output_);
  if (quantised_.used()) quantised_.bind(addresses, output_, args_.out);
}

std::int32_t AttentionLaunch::prepare(const StepInfo& step) {
  tiles_->prepare(step);
  if (tiles_->n_parts() > 1) tiles_->reserve_partials(attention_partial_floats(args_, kMaxSharedRows));
  return static_cast<std::int32_t>(tiles_->tiles().size()) * args_.layout.n_kv_heads * tiles_->n_parts();
}

bool AttentionLaunch::computes() const {
  return std::ranges::any_of(tiles_->tiles(),
                             [](const AttentionTile& tile) { return tile.n_rows > kMaxSharedRows; });
}

void AttentionLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int32_t n_kv_heads = args_.layout.n_kv_heads;
  const int n_parts = tiles_->n_parts();
  const std::int32_t pair = task / n_parts;
  const AttentionTile& tile = tiles_->tiles()[to_size(pair / n_kv_heads)];
  const int kv_head = pair % n_kv_heads;
  if (n_parts == 1) {
    context.kernels.attention(args_, tile, kv_head, context.scratch);
    return quantise(tile, kv_head, context.kernels);
  }
  // A window sees the last pages only: those are divided, and the first part passes by the others.
  const std::int64_t n_pages = attention_pages(tile);
  const bool windowed = args_.window > 0 && tile.n_segments == 1;
  const std::int64_t n_live =
      windowed ? std::min<std::int64_t>(n_pages, args_.window / kPageCells + 2) : n_pages;
  const auto first_page = [&](std::int64_t part) {
    return part == 0 ? 0 : n_pages - n_live + n_live * part / n_parts;
  };
  const std::int64_t part = task % n_parts;
  float* const partials = tiles_->partials(pair);
  context.kernels.attention_partials(args_, tile, kv_head, {first_page(part), first_page(part + 1)}, partials,
                                     context.scratch);
  // The last part merges, so that no thread waits. It also resets the count for the next launch.
  std::atomic<int>& left = tiles_->parts_left(pair);
  if (left.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  context.kernels.attention_merge(args_, tile, kv_head, partials, context.scratch);
  quantise(tile, kv_head, context.kernels);
  left.store(n_parts, std::memory_order_relaxed);
}

Work AttentionLaunch::work() const {
  const auto lanes_before = [](int lane) {
    return lane >= kPageCells ? ~std::uint64_t{0} : (std::uint64_t{1} << lane) - 1;
  };
  std::map<std::int32_t, std::uint64_t> seen;  // By page: its cells that some row sees.
  std::int64_t n_products = 0;
  for (const AttentionTile& tile : tiles_->tiles()) {
    for (int s = 0; s < tile.n_segments; ++s) {
      const AttentionSegment& segment = tile.segments[s];
      for (int r = segment.row_begin; r < segment.row_begin + segment.n_rows; ++r) {
        const std::int32_t row = tile.rows[r];
        const std::int64_t begin = args_.window > 0 ? first_seen(args_, args_.positions[row]) : 0;
        for (int e = 0; e < segment.n_extents; ++e) {
          const Extent& extent = segment.extents[e];
          const std::uint64_t cells = extent.mask & lanes_before(extent.lane_of(args_.ends[row])) &
                                      ~lanes_before(extent.lane_of(begin));
          if (cells == 0) continue;
          seen[extent.page] |= cells;
          n_products += std::popcount(cells);
        }
      }
    }
  }
  std::int64_t n_cells = 0;
  for (const auto& [page, cells] : seen) n_cells += std::popcount(cells);
  const std::size_t page_bytes = k_page_bytes(args_.layout) + v_page_bytes(args_.layout);
  const double of_keys = static_cast<double>(n_products) * args_.n_heads * args_.layout.k_head_dim;
  const double of_values = static_cast<double>(n_products) * args_.n_heads * args_.layout.v_head_dim;
  MultiplyAdds multiply_adds;
  (is_paired_cache(args_.layout.k_type) ? multiply_adds.bf16 : multiply_adds.f32) += of_keys;
  (is_paired_cache(args_.layout.v_type) ? multiply_adds.bf16 : multiply_adds.f32) += of_values;
  return {static_cast<double>(n_cells) * static_cast<double>(page_bytes) / kPageCells, multiply_adds};
}

std::string AttentionLaunch::describe(const Graph& graph) const {
  return "attention -> " + graph.value(output_).name + (quantised_.used() ? " quantised" : "");
}

}  // namespace weft::cpu
