#pragma once
// Cells of a cache copied from place to place, keys turned on the way: what sharing, shifting and
// defragmenting leave to the device.
#include <vector>

#include "backend/cpu/launches/launch.h"

namespace weft::cpu {

class MoveLaunch final : public Launch {
 public:
  MoveLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  bool must_run() const override { return true; }
  std::string describe(const Graph& graph) const override;

 private:
  ops::MoveCells op_;
  ops::MoveCells::Inputs inputs_;
  ValueId output_;
  Dim n_moves_dim_;
  CacheLayout layout_;
  const float* factors_ = nullptr;  // What the frequencies were made with.
  std::vector<double> frequencies_;
  std::byte* cache_ = nullptr;
  const std::int32_t* from_ = nullptr;
  const std::int32_t* to_ = nullptr;
  const std::int32_t* deltas_ = nullptr;
  std::int64_t n_moves_ = 0;
};

}  // namespace weft::cpu
