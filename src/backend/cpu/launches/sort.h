#pragma once
// The order of the elements of each line along an axis. A task sorts whole lines.
#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"

namespace weft::cpu {

class ArgsortLaunch final : public Launch {
 public:
  ArgsortLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  std::string describe(const Graph& graph) const override { return "argsort " + graph.value(output_).name; }

 private:
  void sort_line(std::int64_t first, std::uint64_t* entries) const;

  ops::Argsort op_;
  ValueId input_, output_;
  bool ints_;
  Dim n_lines_dim_, size_dim_, stride_dim_;
  std::int64_t most_ = 0;  // Elements of a line.
  const std::uint32_t* x_ = nullptr;
  std::int32_t* out_ = nullptr;
  std::int64_t n_lines_ = 0, size_ = 0, stride_ = 0;
  Shares shares_;
};

}  // namespace weft::cpu
