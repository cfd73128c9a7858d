#pragma once
// Values that are made of nothing but their places: ranges and random numbers.
#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"

namespace weft::cpu {

class ArangeLaunch final : public Launch {
 public:
  ArangeLaunch(const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::string describe(const Graph& graph) const override { return "arange " + graph.value(output_).name; }

 private:
  ops::Arange op_;
  ValueId output_;
  std::byte* out_ = nullptr;
  std::int64_t begin_ = 0, n_ = 0;
  Shares shares_;
};

class RandomLaunch final : public Launch {
 public:
  RandomLaunch(const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::string describe(const Graph& graph) const override { return "random " + graph.value(output_).name; }

 private:
  ops::Random op_;
  ValueId counter_id_, output_;
  const std::int32_t* counter_ = nullptr;
  float* out_ = nullptr;
  std::int64_t n_ = 0;
  Shares shares_;  // Of blocks of four.
};

}  // namespace weft::cpu
