#pragma once
// What moves elements: views that have to lie row after row, values joined along an axis, values with
// something around them.
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"

namespace weft::cpu {

/// A copy from one place with strides to another, in tasks.
class StridedCopy {
 public:
  /// `to` has the shape of `from`.
  StridedCopy(View to, View from) : to_(std::move(to)), from_(std::move(from)) {}
  void bind(const Addresses& addresses);
  std::int32_t prepare(const StepInfo& step);
  void run(std::int32_t task, const Kernels& kernels) const;

 private:
  void run_turned(std::int64_t begin, std::int64_t end, const Kernels& kernels) const;

  View to_, from_;
  float* to_base_ = nullptr;
  const float* from_base_ = nullptr;
  StridedLoops loops_;
  /// If `from` and `to` have different innermost axes: the other axes, and blocks of rows along the innermost
  /// axis of `from`.
  bool turned_ = false;
  std::int64_t row_ = 0, column_ = 0, n_rows_ = 0, n_columns_ = 0, to_row_ = 0, n_blocks_ = 0;
  Shares shares_;
};

class CopyLaunch final : public Launch {
 public:
  /// Elements of `from`, one after another, make the value, of that shape or another.
  CopyLaunch(ValueId value, const View& from);
  void bind(const Addresses& addresses) override { copy_.bind(addresses); }
  std::int32_t prepare(const StepInfo& step) override { return copy_.prepare(step); }
  void run(std::int32_t task, const TaskContext& context) override { copy_.run(task, context.kernels); }
  std::string describe(const Graph& graph) const override { return "copy " + graph.value(value_).name; }

 private:
  ValueId value_;
  StridedCopy copy_;
};

/// Values that make up another: joined along an axis, or one within padding.
class JoinLaunch final : public Launch {
 public:
  /// A node of Concat or Pad, with its inputs as views.
  JoinLaunch(const Graph& graph, const Node& node, std::span<const View> parts);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::string describe(const Graph& graph) const override;

 private:
  void add_concat(const ops::Concat& op, const View& out, std::span<const View> parts);
  void add_pad(const ops::Pad& op, const View& out, const View& x);

  std::string_view name_;
  ValueId output_;
  std::vector<View> padding_;  // Parts of the output that no copy fills ...
  float value_ = 0.0f;         // ... but this.
  std::vector<StridedCopy> copies_;
  std::vector<std::int32_t> first_task_;  // By copy, and the end.
  float* out_ = nullptr;
  std::vector<StridedLoops> fills_;
};

}  // namespace weft::cpu
