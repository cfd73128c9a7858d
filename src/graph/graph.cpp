#include "weft/graph.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/check.h"
#include "weft/error.h"

namespace weft {

SymbolId Graph::add_symbol(std::string name, std::int64_t min, std::int64_t max) {
  WEFT_CHECK(0 <= min && min <= max);
  symbols_.push_back({std::move(name), min, max});
  return static_cast<SymbolId>(symbols_.size()) - 1;
}

ValueId Graph::add_value(ValueInfo info) {
  values_.push_back(std::move(info));
  const ValueId id = static_cast<ValueId>(values_.size()) - 1;
  add_name(id);
  return id;
}

void Graph::rename(ValueId value, std::string name) {
  values_[index(value)].name = std::move(name);
  add_name(value);
}

void Graph::add_name(ValueId value) {
  const auto put = [&](ValueId id) {
    std::size_t at = std::hash<std::string_view>()(values_[index(id)].name);
    while (names_[at &= names_.size() - 1] != kNoValue) ++at;
    names_[at] = id;
  };
  if (2 * ++n_names_ <= names_.size()) return put(value);
  names_.assign(std::max<std::size_t>(16, 4 * values_.size() - 1), kNoValue);
  names_.resize(std::bit_ceil(names_.size()), kNoValue);
  n_names_ = values_.size();
  for (std::size_t v = 0; v < values_.size(); ++v) put(static_cast<ValueId>(v));
}

ValueId Graph::add_input(std::string name, DType dtype, Shape shape) {
  return add_value({std::move(name), ValueKind::kInput, dtype, shape, kNoNode});
}
ValueId Graph::add_weight(std::string name, DType dtype, Shape shape) {
  return add_value({std::move(name), ValueKind::kWeight, dtype, shape, kNoNode});
}
ValueId Graph::add_state(std::string name, DType dtype, Shape shape) {
  return add_value({std::move(name), ValueKind::kState, dtype, shape, kNoNode});
}

ValueId Graph::add(Op op, std::span<const ValueId> inputs, std::string name, NodeTag tag) {
  Node node{std::move(op), {}, kNoValue, tag};
  std::vector<ValueType> types;
  const auto end = std::find(inputs.begin(), inputs.end(), kNoValue);
  WEFT_CHECK(std::all_of(end, inputs.end(), [](ValueId input) { return input == kNoValue; }));
  for (const ValueId input : inputs.first(static_cast<std::size_t>(end - inputs.begin()))) {
    WEFT_CHECK(input >= 0 && input < static_cast<ValueId>(values_.size()));
    node.inputs.push_back(input);
    types.push_back({value(input).dtype, value(input).shape});
  }
  ValueType type;
  try {
    type = infer(node.op, types);
  } catch (const Error& error) {
    std::string what = name + ": " + error.what() + " (inputs";
    for (const ValueId input : node.inputs)
      what += " " + value(input).name + " " + to_string(value(input).shape, symbols_);
    throw Error(error.code(), what + ")");
  }
  node.output = add_value(
      {std::move(name), ValueKind::kResult, type.dtype, type.shape, static_cast<NodeId>(nodes_.size())});
  nodes_.push_back(std::move(node));
  return nodes_.back().output;
}

std::string Graph::free_name(std::string_view stem) const {
  for (std::size_t i = nodes_.size();; ++i)
    if (std::string name = std::string(stem) + "_" + std::to_string(i); find(name) == kNoValue) return name;
}

void Graph::add_output(ValueId value) {
  if (value < 0 || index(value) >= values_.size())
    throw Error(ErrorCode::kInvalidArgument, "there is no value " + std::to_string(value));
  outputs_.push_back(value);
}

ValueId Graph::find(std::string_view name) const {
  if (names_.empty()) return kNoValue;
  for (std::size_t at = std::hash<std::string_view>()(name);; ++at) {
    const ValueId id = names_[at &= names_.size() - 1];
    if (id == kNoValue || values_[index(id)].name == name) return id;
  }
}

bool Graph::is_output(ValueId value) const {
  return std::find(outputs_.begin(), outputs_.end(), value) != outputs_.end();
}

std::vector<std::int64_t> Graph::bounds() const {
  std::vector<std::int64_t> result;
  for (const Symbol& symbol : symbols_) result.push_back(symbol.max);
  return result;
}

bool changes_state(const Node& node) {
  return get_op<ops::StoreCache>(node) != nullptr || get_op<ops::MoveCells>(node) != nullptr ||
         get_op<ops::ShortConv>(node) != nullptr || get_op<ops::SelectiveScan>(node) != nullptr;
}

ValueId state_behind(const Graph& graph, ValueId value) {
  while (graph.value(value).producer != kNoNode) {
    const Node& node = graph.node(graph.value(value).producer);
    if (get_op<ops::StoreCache>(node) == nullptr && get_op<ops::MoveCells>(node) == nullptr) return kNoValue;
    value = node.inputs[0];
  }
  return graph.value(value).kind == ValueKind::kState ? value : kNoValue;
}

std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<bool> wanted(graph.values().size()), live(graph.nodes().size());
  for (const ValueId output : graph.outputs()) wanted[static_cast<std::size_t>(output)] = true;
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    live[i] = changes_state(node) || wanted[static_cast<std::size_t>(node.output)];
    if (!live[i]) continue;
    for (const ValueId input : node.inputs) wanted[static_cast<std::size_t>(input)] = true;
  }
  return live;
}

std::string to_string(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    const ValueInfo& out = graph.value(node.output);
    text += out.name + " " + to_string(out.shape, graph.symbols()) + " = " + std::string(name(node.op)) + "(";
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      text += (i > 0 ? ", " : "") + graph.value(node.inputs[i]).name;
    text += ")\n";
  }
  return text;
}

std::string to_dot(const Graph& graph) {
  std::string text =
      "digraph weft {\n  rankdir=TB; node [shape=box, fontname=\"sans-serif\", fontsize=10];\n";
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const ValueInfo& out = graph.value(node.output);
    text += "  n" + std::to_string(i) + " [label=\"" + std::string(name(node.op)) + "\\n" + out.name + " " +
            to_string(out.shape, graph.symbols()) + "\"];\n";
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph.value(input).producer;
      if (producer != kNoNode) text += "  n" + std::to_string(producer) + " -> n" + std::to_string(i) + ";\n";
    }
  }
  return text + "}\n";
}

}  // namespace weft
