#include "backend/cpu/launches/elementwise.h"

#include <algorithm>
#include <cstring>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

/// Fewer are not worth another thread.
constexpr std::int64_t kElementwiseLeastElements = 8192;
/// Elements that are gathered at a time where an operand's are apart.
constexpr std::int64_t kGathered = 512;
constexpr std::size_t kElementBytes = 4;

template <typename T>
Elements<T> elements(const ElementRun& run) {
  return {reinterpret_cast<const T*>(run.at), run.one};
}

}  // namespace

std::optional<ElementwiseOp> as_elementwise(const Op& op) {
  return std::visit(
      [](const auto& o) -> std::optional<ElementwiseOp> {
        if constexpr (std::is_constructible_v<ElementwiseOp, decltype(o)>) {
          return ElementwiseOp(o);
        } else {
          return std::nullopt;
        }
      },
      op);
}

void compute_elements(const ops::Unary& op, const Kernels& kernels, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out) {
  kernels.unary_row(op.kind, elements<float>(in[0]).at, n, reinterpret_cast<float*>(out));
}

void compute_elements(const ops::Clamp& op, const Kernels& kernels, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out) {
  kernels.clamp_row(elements<float>(in[0]).at, op.low, op.high, n, reinterpret_cast<float*>(out));
}

void compute_elements(const ops::Binary& op, const Kernels& kernels, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out) {
  Elements<float> a = elements<float>(in[0]);
  Elements<float> b = in.size() > 1 ? elements<float>(in[1]) : Elements<float>{&op.scalar, true};
  if (op.scalar_first) std::swap(a, b);
  kernels.binary_row(op.kind, a, b, n, reinterpret_cast<float*>(out));
}

void compute_elements(const ops::Where& op, const Kernels& kernels, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out) {
  const Elements<float> b = in.size() > 2 ? elements<float>(in[2]) : Elements<float>{&op.otherwise, true};
  kernels.where_row(elements<std::int32_t>(in[0]), elements<float>(in[1]), b, n,
                    reinterpret_cast<float*>(out));
}

void compare_elements(const ops::Compare& op, DType type, const Kernels& kernels,
                      std::span<const ElementRun> in, std::int64_t n, std::byte* out) {
  auto* const to = reinterpret_cast<std::int32_t*>(out);
  if (type == DType::kI32) {
    const auto scalar = in.size() > 1 ? 0 : static_cast<std::int32_t>(op.scalar);
    const Elements<std::int32_t> b =
        in.size() > 1 ? elements<std::int32_t>(in[1]) : Elements<std::int32_t>{&scalar, true};
    return kernels.compare_ints(op.kind, elements<std::int32_t>(in[0]), b, n, to);
  }
  const Elements<float> b = in.size() > 1 ? elements<float>(in[1]) : Elements<float>{&op.scalar, true};
  kernels.compare_floats(op.kind, elements<float>(in[0]), b, n, to);
}

ElementwiseLaunch::ElementwiseLaunch(const Graph& graph, const Node& node, std::span<const View> operands)
    : op_(*as_elementwise(node.op)),
      name_(to_string(node.op)),
      output_(node.output),
      operand_type_(graph.value(node.inputs[0]).dtype),
      views_{plain_view(node.output, graph.value(node.output).shape)} {
  for (const View& operand : operands) views_.push_back(broadcast_view(operand, views_[0].shape));
  in_step_.resize(views_.size());
  bases_.resize(views_.size());
}

void ElementwiseLaunch::bind(const Addresses& addresses) {
  for (std::size_t i = 0; i < views_.size(); ++i) bases_[i] = addresses.plain<std::byte>(views_[i].base);
}

std::int32_t ElementwiseLaunch::prepare(const StepInfo& step) {
  for (std::size_t i = 0; i < views_.size(); ++i) in_step_[i] = at_step(views_[i], step.symbols);
  loops_.set(in_step_);
  shares_.set(loops_.n_elements(), kElementwiseLeastElements, step.n_threads);
  return shares_.n_tasks;
}

std::size_t ElementwiseLaunch::scratch_bytes() const {
  return (views_.size() - 1) * to_size(kGathered) * kElementBytes;
}

void ElementwiseLaunch::run(std::int32_t task, const TaskContext& context) {
  const int n_operands = static_cast<int>(views_.size()) - 1;
  const auto stride = [&](int operand) { return loops_.run_stride(operand + 1); };
  bool gathers = false;
  // An op of one operand has no form for one element that is repeated.
  const auto in_place = [&](int o) { return stride(o) == 1 || (stride(o) == 0 && n_operands > 1); };
  for (int o = 0; o < n_operands; ++o) gathers = gathers || !in_place(o);
  const std::int64_t begin = task * shares_.per_task;
  const std::int64_t end = std::min(begin + shares_.per_task, loops_.n_elements());
  std::array<ElementRun, StridedLoops::kMaxOperands> in;
  loops_.for_each_run(begin, end, [&](const StridedLoops::Offsets& offsets, std::int64_t length) {
    for (std::int64_t first = 0; first < length;) {
      const std::int64_t n = gathers ? std::min(length - first, kGathered) : length;
      for (int o = 0; o < n_operands; ++o) {
        const auto operand = to_size(o);
        const std::byte* from =
            bases_[operand + 1] + (offsets[operand + 1] + first * stride(o)) * std::int64_t{kElementBytes};
        if (!in_place(o)) {
          std::byte* const to = context.scratch + operand * to_size(kGathered) * kElementBytes;
          context.kernels.copy_block(reinterpret_cast<const float*>(from), stride(o), 1, n, 1, 1,
                                     reinterpret_cast<float*>(to), 1);
          from = to;
        }
        in[operand] = {from, stride(o) == 0 && n_operands > 1};
      }
      compute(context.kernels, {in.data(), to_size(n_operands)}, n,
              bases_[0] + (offsets[0] + first) * std::int64_t{kElementBytes});
      first += n;
    }
  });
}

void ElementwiseLaunch::compute(const Kernels& kernels, std::span<const ElementRun> in, std::int64_t n,
                                std::byte* out) const {
  std::visit(
      [&](const auto& op) {
        using T = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<T, ops::Add> || std::is_same_v<T, ops::Mul>) {
          const BinaryKind kind = std::is_same_v<T, ops::Add> ? BinaryKind::kAdd : BinaryKind::kMul;
          compute_elements(ops::Binary{kind}, kernels, in, n, out);
        } else if constexpr (std::is_same_v<T, ops::Scale>) {
          kernels.scale_row(elements<float>(in[0]).at, op.factor, n, reinterpret_cast<float*>(out));
        } else if constexpr (std::is_same_v<T, ops::Softcap>) {
          kernels.softcap_row(elements<float>(in[0]).at, op.cap, n, reinterpret_cast<float*>(out));
        } else if constexpr (std::is_same_v<T, ops::Activate>) {
          kernels.activation_row(op.kind, elements<float>(in[0]).at, n, reinterpret_cast<float*>(out));
        } else if constexpr (std::is_same_v<T, ops::Compare>) {
          compare_elements(op, operand_type_, kernels, in, n, out);
        } else {
          compute_elements(op, kernels, in, n, out);
        }
      },
      op_);
}

std::string ElementwiseLaunch::describe(const Graph& graph) const {
  return "elementwise " + std::string(name_) + ":" + graph.value(output_).name;
}

}  // namespace weft::cpu
