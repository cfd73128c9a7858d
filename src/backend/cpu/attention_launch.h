#pragma once
// Attention of a step: the batch's rows cut into tiles of one sequence each, times the KV heads.
#include <memory>
#include <vector>

#include "backend/cpu/launch.h"

namespace weft::cpu {

/// The tiles of a step, shared by all layers that read the same table.
class AttentionTiles {
 public:
  /// Values: positions, sequences, extents and their counts, as in ops::Attention.
  AttentionTiles(const Graph& graph, std::span<const ValueId> values);
  bool serves(std::span<const ValueId> values) const;

  void bind(const Addresses& addresses);
  void prepare(const StepInfo& step);
  std::span<const AttentionTile> tiles() const { return {tiles_.data(), n_tiles_}; }

 private:
  std::vector<ValueId> values_;
  Dim rows_;
  std::int64_t table_width_;
  std::vector<AttentionTile> tiles_;
  std::size_t n_tiles_ = 0;
  std::uint64_t step_ = 0;
  const std::int32_t* sequences_ = nullptr;
  const Extent* extents_ = nullptr;
  const std::int32_t* counts_ = nullptr;
};

class AttentionLaunch final : public Launch {
 public:
  AttentionLaunch(const Graph& graph, const Node& node, std::shared_ptr<AttentionTiles> tiles);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override { return attention_scratch_bytes(args_); }
  std::string describe(const Graph& graph) const override;

 private:
  std::vector<ValueId> inputs_;
  ValueId output_;
  std::shared_ptr<AttentionTiles> tiles_;
  AttentionArgs args_;
};

}  // namespace weft::cpu
