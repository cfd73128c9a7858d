// Checks the properties of graphs on which all devices rely.
#include <algorithm>
#include <limits>

#include "graph/indices.h"
#include "graph/refuse.h"
#include "plan/plan_impl.h"
#include "weft/error.h"

namespace weft {
namespace {

/// Of a value. Devices count tasks by rows.
constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();

constexpr std::size_t kNoPlace = std::numeric_limits<std::size_t>::max();

/// The input, by its place in the list, that must be a weight. Matrices are packed for it.
std::size_t weight_place(const Node& node) {
  if (get_op<ops::Matmul>(node) != nullptr || get_op<ops::MatmulExperts>(node) != nullptr) return 0;
  if (get_op<ops::Rope>(node) != nullptr && node.inputs.size() > 2) return 2;
  if (get_op<ops::ShortConv>(node) != nullptr) return 2;
  if (get_op<ops::SelectiveScan>(node) != nullptr) return 5;
  if (get_op<ops::ConvTranspose2d>(node) != nullptr) return 1;
  if (get_op<ops::Lstm>(node) != nullptr || get_op<ops::Gru>(node) != nullptr) return 1;
  return kNoPlace;
}

/// Inputs that may be weights, packed for the node, or other values.
bool may_be_packed(const Node& node, std::size_t i) {
  return (get_op<ops::GetRows>(node) != nullptr && i == 0) ||
         (get_op<ops::Conv2d>(node) != nullptr && i == 1);
}

/// Checks beyond the shape rules: which inputs are weights and states. Devices rely on it.
void check_kinds(const Graph& graph, const Node& node) {
  const auto fail = [&](std::size_t i, const char* expected) {
    refuse(graph.value(node.output).name + " = " + std::string(to_string(node.op)) + ": input " +
               std::to_string(i) + " (" + graph.value(node.inputs[i]).name + ") must be " + expected,
           node.source.where);
  };
  std::vector<std::size_t> states;
  if (changes_state(node)) states = {0};
  if (get_op<ops::Attention>(node) != nullptr) states = {1, 2};
  // Keys and values that are states are so by their shape.
  if (get_op<ops::RaggedAttention>(node) != nullptr)
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
      if (graph.value(node.inputs[i]).shape.rank() == 3) states.push_back(i);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueInfo& value = graph.value(node.inputs[i]);
    const bool is_weight = value.kind == ValueKind::kWeight;
    const bool is_state = state_behind(graph, node.inputs[i]) != kNoValue;
    const bool packed = i == weight_place(node), table = may_be_packed(node, i);
    if (packed && !is_weight) fail(i, "a weight");
    if ((std::find(states.begin(), states.end(), i) != states.end()) != is_state)
      fail(i, is_state ? "no state" : "a state");
    if (table && !is_weight && value.dtype != DType::kF32) fail(i, "a weight or of type f32");
    if (is_weight && value.shape.rank() > 1 && !packed && !table && value.dtype != DType::kF32)
      fail(i, "of type f32, because the op reads its elements");
    // The tables of attention are checked before a step begins.
    if (get_op<ops::Attention>(node) != nullptr && value.dtype == DType::kI32 &&
        value.kind != ValueKind::kInput)
      fail(i, "an input");
    if (is_weight && value.dtype == DType::kI32)
      fail(i, "an input, because weights of integers are not supported");
  }
}

}  // namespace

std::vector<bool> plain_weights(const Graph& graph) {
  std::vector<bool> plain(graph.values().size()), packed(graph.values().size());
  for (const Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (graph.value(input).kind != ValueKind::kWeight || graph.value(input).shape.rank() < 2) continue;
      (may_be_packed(node, i) || i == weight_place(node) ? packed : plain)[index(input)] = true;
      if (plain[index(input)] && packed[index(input)])
        refuse("weight '" + graph.value(input).name +
                   "' is an operand of a matrix product or a row lookup, but this op reads its elements; use "
                   "two weights",
               node.source.where);
    }
  }
  return plain;
}

void refuse(const std::string& reason) { throw Error(ErrorCode::kInvalidArgument, reason); }

std::int64_t checked_elements(const Graph& graph, const ValueInfo& value,
                              std::span<const std::int64_t> symbols) {
  std::int64_t elements = 8;
  for (int i = 0; i < value.shape.rank(); ++i)
    if (const std::int64_t size = value.shape[i].value(symbols);
        size < 0 || __builtin_mul_overflow(elements, size, &elements))
      refuse(value.name + " " + to_string(value.shape, graph.symbols()) +
                 (size < 0 ? " has a negative size for some values of the symbols"
                           : " is too large for any memory"),
             value.producer == kNoNode ? Where() : graph.node(value.producer).source.where);
  return elements / 8;
}

std::vector<IndexUse> index_uses(const Graph& graph) {
  std::vector<IndexUse> uses;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const auto add_input = [&](ValueId indices, const Dim& end, std::int64_t least = 0) {
      const ValueId input = viewed(graph, indices);
      if (graph.value(input).kind == ValueKind::kInput)
        uses.push_back({.input = input, .node = static_cast<NodeId>(n), .least = least, .end = end});
    };
    // Kernels of most ops do not check indices.
    const auto add = [&](ValueId indices, const Dim& end, std::int64_t least = 0) {
      if (graph.value(viewed(graph, indices)).kind != ValueKind::kInput &&
          !is_known_below(graph, indices, end))
        refuse(graph.value(node.output).name + " = " + std::string(to_string(node.op)) + ": " +
                   graph.value(indices).name + " must be an input, or indices of top_k, argsort or arange",
               node.source.where);
      add_input(indices, end, least);
    };
    const auto shape = [&](std::size_t i) -> const Shape& { return graph.value(node.inputs[i]).shape; };
    if (get_op<ops::GetRows>(node) != nullptr) add_input(node.inputs[1], shape(0)[0]);
    if (get_op<ops::StoreCache>(node) != nullptr) add(node.inputs[2], shape(0)[0]);
    if (const auto* take = get_op<ops::TakeAlong>(node)) add_input(node.inputs[1], shape(0)[take->axis]);
    if (const auto* scatter = get_op<ops::Scatter>(node)) add_input(node.inputs[1], shape(0)[scatter->axis]);
    if (get_op<ops::ExpertWeights>(node) != nullptr) add(node.inputs[1], shape(0)[1]);
    if (get_op<ops::MatmulExperts>(node) != nullptr) add(node.inputs[2], shape(0)[0]);
    if (get_op<ops::LogSumExp>(node) != nullptr)
      add(node.inputs[1], shape(0)[1], std::min(ops::LogSumExp::kNoColumn, ops::LogSumExp::kNoRow));
    if (get_op<ops::MoveCells>(node) != nullptr) {
      const auto in = named_inputs<ops::MoveCells>(node);
      add(in.from, shape(0)[0]);
      add(in.to, shape(0)[0]);
    }
    // A negative slot is a state of zeros.
    constexpr std::int64_t kZeros = std::numeric_limits<std::int32_t>::min();
    const auto slots = [&](const auto& in) {
      add(in.from, graph.value(in.state).shape[0], kZeros);
      add(in.to, graph.value(in.state).shape[0]);
    };
    if (get_op<ops::ShortConv>(node) != nullptr) slots(named_inputs<ops::ShortConv>(node));
    if (get_op<ops::SelectiveScan>(node) != nullptr) slots(named_inputs<ops::SelectiveScan>(node));
    if (get_op<ops::DeltaRule>(node) != nullptr) slots(named_inputs<ops::DeltaRule>(node));
    if (get_op<ops::Attention>(node) != nullptr) {
      const auto in = named_inputs<ops::Attention>(node);
      add(in.sequences, graph.value(in.extents).shape[0]);
    }
  }
  return uses;
}

void check_slice(const Graph& graph, const Node& node, std::span<const std::int64_t> symbols) {
  const auto& slice = *get_op<ops::Slice>(node);
  const ValueInfo& x = graph.value(node.inputs[0]);
  const std::int64_t begin = slice.begin.value(symbols), end = slice.end.value(symbols);
  const std::int64_t size = x.shape[slice.axis].value(symbols);
  if (begin < 0 || begin > end || end > size)
    refuse(graph.value(node.output).name + ": " + x.name + " " + to_string(x.shape, graph.symbols()) +
               " has no elements " + std::to_string(begin) + " to " + std::to_string(end) + " along axis " +
               std::to_string(slice.axis) + ", which has size " + std::to_string(size),
           node.source.where);
}

/// A state is changed in place: readers of the state read the changed one.
void check_states(const Graph& graph) {
  std::vector<NodeId> changed_by(graph.values().size(), kNoNode);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (!changes_state(node)) continue;
    NodeId& changer = changed_by[index(node.inputs[0])];
    if (changer == kNoNode) changer = static_cast<NodeId>(n);
  }
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    for (const ValueId input : graph.nodes()[n].inputs)
      if (const NodeId changer = changed_by[index(input)]; changer != kNoNode && index(changer) != n)
        refuse(graph.value(graph.nodes()[n].output).name + " uses '" + graph.value(input).name + "', which " +
                   graph.value(graph.node(changer).output).name +
                   " changes in place; use the result of that op instead",
               graph.nodes()[n].source.where);
}

void check_graph(const Graph& graph) {
  if (graph.outputs().empty()) refuse("the graph has no outputs, so there is nothing to compute");
  const std::vector<std::int64_t> bounds = graph.bounds();
  std::vector<std::int64_t> least;
  for (const Symbol& symbol : graph.symbols()) {
    least.push_back(symbol.min);
    if (symbol.max > kMaxSymbol) refuse("symbol '" + symbol.name + "' exceeds 2^31");
  }
  for (const ValueInfo& value : graph.values()) {
    checked_elements(graph, value, least);
    checked_elements(graph, value, bounds);
    if (value.shape.rank() > 0 && value.shape.rows(bounds) > kMaxRows)
      refuse(value.name + " " + to_string(value.shape, graph.symbols()) + " has more than 2^31 - 1 rows");
  }
  for (const ValueId output : graph.outputs())
    if (graph.value(output).kind != ValueKind::kResult)
      refuse("output '" + graph.value(output).name + "' is not the result of an op");
  for (const Node& node : graph.nodes()) check_kinds(graph, node);
  check_states(graph);
}

std::string sizes_text(std::span<const std::int64_t> dims) {
  std::string text;
  for (const std::int64_t size : dims) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text.empty() ? "[]" : text + "]";
}

}  // namespace weft
