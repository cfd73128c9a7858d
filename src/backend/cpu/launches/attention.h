#pragma once
// Attention of a step: the batch's rows cut into tiles of segments, each of one sequence, times the KV heads.
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/quantised_output.h"
#include "base/to_size.h"

namespace weft::cpu {

/// The tiles of a step, shared by all layers that read the same table. Consecutive rows of a sequence are a
/// segment, and segments of sequences with a common prefix are grouped into tiles.
class AttentionTiles {
 public:
  AttentionTiles(const Graph& graph, const ops::Attention::Inputs& inputs);
  /// Whether attention over these inputs has the same tiles: the same rows of the same table, as many heads.
  bool serves(const Graph& graph, const ops::Attention::Inputs& inputs) const;
  /// Without the partials.
  std::size_t held_bytes() const;

  void bind(const Addresses& addresses);
  void prepare(const StepInfo& step);
  std::span<const AttentionTile> tiles() const { return {tiles_.data(), n_tiles_}; }

  /// The number of tasks that share the pages of each tile and head. It is more than one if tiles are few and
  /// sequences long, as in the decoding of one sequence.
  int n_parts() const { return n_parts_; }
  static constexpr std::int64_t kMaxSharedPairs = 64;  ///< Tiles times heads, if there is more than one part.
  /// Room for the partials of all pages of pair (tile, head), and how many of its parts are not done.
  /// Launches that share these tiles use both in turn.
  void reserve_partials(std::size_t floats_per_page);
  float* partials(std::int64_t pair) const {
    return reinterpret_cast<float*>(memory_.data()) + to_size(pair) * floats_per_pair_;
  }
  std::atomic<int>& parts_left(std::int64_t pair) { return parts_left_[to_size(pair)]; }

 private:
  /// Rows of a sequence, at most max_rows to a segment.
  void cut_into_segments(std::int64_t n_rows, std::int64_t max_rows);
  void add_tile(std::size_t begin, std::size_t end, int n_shared);
  void cut_into_parts(int n_threads);

  ops::Attention::Inputs inputs_;
  Dim rows_;
  std::int64_t table_width_;
  int n_kv_heads_;                       // How many tasks a tile makes.
  std::vector<std::int32_t> row_order_;  // Rows of the batch, tile after tile.
  std::vector<AttentionSegment>
      segments_;  // In that order; row_begin is the first of the batch until it has a tile.
  std::vector<AttentionTile> tiles_;
  std::size_t n_segments_ = 0;
  std::size_t n_tiles_ = 0;
  std::size_t n_ordered_ = 0;  // Of row_order_.
  int n_parts_ = 1;
  std::int64_t max_pages_ = 0;  // Of a tile.
  std::size_t floats_per_pair_ = 0;
  base::Memory memory_;
  std::array<std::atomic<int>, kMaxSharedPairs> parts_left_{};
  std::uint64_t step_ = 0;
  const std::int32_t* sequences_ = nullptr;
  const Extent* extents_ = nullptr;
  const std::int32_t* counts_ = nullptr;
};

class AttentionLaunch final : public Launch {
 public:
  /// `first`: the first launch with these tiles, which reports their memory.
  AttentionLaunch(const Graph& graph, const Node& node, std::shared_ptr<AttentionTiles> tiles, bool first);
  bool make_form(Form form) override;
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  bool prepares_each_step() const override { return true; }
  bool computes() const override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override { return attention_scratch_bytes(args_); }
  std::size_t held_bytes() const override { return first_ ? tiles_->held_bytes() : 0; }
  Work work() const override;
  std::string describe(const Graph& graph) const override;

 private:
  /// Columns of the output that a KV head's tasks make.
  std::int64_t head_columns() const { return args_.out_stride / args_.layout.n_kv_heads; }
  void quantise(const AttentionTile& tile, int kv_head, const Kernels& kernels) const;

  ops::Attention::Inputs inputs_;
  ValueId output_;
  std::shared_ptr<AttentionTiles> tiles_;
  bool first_;
  AttentionArgs args_;
  std::vector<float> slopes_;
  QuantisedOutput quantised_;
};

}  // namespace weft::cpu
