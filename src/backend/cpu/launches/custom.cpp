#include "backend/cpu/launches/custom.h"

#include <algorithm>

#include "base/to_size.h"
#include "graph/refuse.h"

namespace weft::cpu {

CustomLaunch::CustomLaunch(const Graph& graph, const Node& node)
    : op_(*get_op<ops::Custom>(node)),
      place_(line_text(node.source.where) + graph.value(node.output).name + " = " + op_.name) {
  const auto operand = [&](ValueId value) {
    return Operand{.value = value, .dtype = graph.value(value).dtype, .shape = graph.value(value).shape};
  };
  for (const ValueId input : node.inputs) in_.push_back(operand(input));
  out_ = operand(node.output);
}

std::span<std::byte> CustomLaunch::Operand::bytes() const {
  std::size_t n = 4;  // Bytes of an element, f32 or i32.
  for (const std::int64_t size : sizes) n *= to_size(size);
  return {data, n};
}

void CustomLaunch::bind(const Addresses& addresses) {
  for (Operand& operand : in_) operand.data = addresses.plain<std::byte>(operand.value);
  out_.data = addresses.plain<std::byte>(out_.value);
}

std::int32_t CustomLaunch::prepare(const StepInfo& step) {
  inputs_.clear();
  for (Operand& operand : in_) {
    operand.sizes = operand.shape.dims(step.symbols);
    inputs_.push_back({operand.dtype, operand.sizes, operand.bytes()});
  }
  out_.sizes = out_.shape.dims(step.symbols);
  if (out_.bytes().empty()) return 0;
  n_rows_ = out_.sizes.empty() ? 1 : out_.sizes.front();
  // Few tasks for each thread suffice to share them out.
  constexpr std::int64_t kTasksPerThread = 8;
  const std::int64_t most = kTasksPerThread * step.n_threads;
  rows_per_task_ =
      op_.rows_per_task == 0 ? n_rows_ : std::max(op_.rows_per_task, (n_rows_ + most - 1) / most);
  rows_per_task_ = std::min(rows_per_task_, n_rows_);
  return static_cast<std::int32_t>((n_rows_ + rows_per_task_ - 1) / rows_per_task_);
}

void CustomLaunch::run(std::int32_t task, const TaskContext& context) {
  if (context.failure.happened()) return;
  const std::int64_t begin = task * rows_per_task_, end = std::min(begin + rows_per_task_, n_rows_);
  const std::span<std::byte> all = out_.bytes();
  const std::size_t row = all.size() / to_size(n_rows_);
  const CustomCall call = {.inputs = inputs_,
                           .dtype = out_.dtype,
                           .shape = out_.sizes,
                           .begin = begin,
                           .end = end,
                           .bytes = all.subspan(row * to_size(begin), row * to_size(end - begin))};
  try {
    (*op_.function)(call);
  } catch (...) {
    context.failure.set(std::current_exception(), place_);
  }
}

std::string CustomLaunch::describe(const Graph& graph) const {
  return "custom " + op_.name + " " + graph.value(out_.value).name;
}

}  // namespace weft::cpu
