#pragma once
// A function of a user's own.
#include <string>
#include <vector>

#include "backend/cpu/launches/launch.h"

namespace weft::cpu {

class CustomLaunch final : public Launch {
 public:
  CustomLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::string describe(const Graph& graph) const override;

 private:
  struct Operand {
    ValueId value = kNoValue;
    DType dtype = DType::kF32;
    Shape shape;
    std::vector<std::int64_t> sizes;  // In this step.
    std::byte* data = nullptr;
    std::span<std::byte> bytes() const;
  };

  const ops::Custom op_;
  const std::string place_;  // For errors: the user's line, and the node.
  std::vector<Operand> in_;
  Operand out_;
  std::vector<CustomInput> inputs_;
  std::int64_t n_rows_ = 0, rows_per_task_ = 0;
};

}  // namespace weft::cpu
