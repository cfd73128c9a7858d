#pragma once
// Launches that make a node's result from reductions of a product's rows (best.h, log_sum.h), once all its
// tiles are done. Each row is independent.
#include <memory>
#include <string>

#include "backend/cpu/launches/launch.h"

namespace weft::cpu {

struct Taken;

class MergeLaunch : public Launch {
 public:
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::string describe(const Graph& graph) const override;

 protected:
  /// `name` is what describe() calls it.
  MergeLaunch(const Graph& graph, const Node& node, const char* name, std::shared_ptr<const Taken> taken);
  const Taken& taken() const { return *taken_; }

 private:
  /// Writes a row of the result.
  virtual void merge(std::int64_t row, const TaskContext& context, float* out) const = 0;

  const char* const name_;
  const std::shared_ptr<const Taken> taken_;
  const ValueId out_id_;
  const Dim rows_;
  const std::int64_t columns_;
  float* out_ = nullptr;
  std::int64_t n_rows_ = 0;  // Of this step.
  std::int64_t rows_per_task_ = 1;
};

}  // namespace weft::cpu
