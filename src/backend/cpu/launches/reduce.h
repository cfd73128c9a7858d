#pragma once
// Sums, means, extremes over any axes of a value, with strides. One task makes a result whole, so its bits do
// not depend on the threads.
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"

namespace weft::cpu {

class ReduceLaunch final : public Launch {
 public:
  ReduceLaunch(const Node& node, const View& x);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  std::string describe(const Graph& graph) const override;

 private:
  struct Columns;
  void reduce_one(std::int64_t x, std::int64_t result, const TaskContext& context) const;
  void reduce_columns(std::int64_t x, std::int64_t result, std::int64_t n, const TaskContext& context) const;
  void finish(std::int64_t result, double sum, float best, std::int64_t place) const;

  ops::Reduce op_;
  ValueId output_;
  View kept_;     // x along the axes that stay: one place for each result.
  View reduced_;  // x along the others.
  const float* x_ = nullptr;
  std::byte* out_ = nullptr;
  StridedLoops results_, elements_;
  bool by_columns_ = false;
  Shares shares_;
};

}  // namespace weft::cpu
