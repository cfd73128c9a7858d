#include "weft/graph.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <utility>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft {
namespace {

void check_type(const std::string& name, DType dtype) {
  if (const auto id = static_cast<std::uint32_t>(dtype); !dtype_from_id(id))
    throw Error(ErrorCode::kInvalidArgument, "'" + name + "': there is no type " + std::to_string(id));
}

}  // namespace

const Graph::Data& Graph::nothing() {
  static const Data none;
  return none;
}

Graph::Data& Graph::change() {
  if (data_ == nullptr) {
    data_ = std::make_shared<Data>();
  } else if (data_.use_count() > 1) {
    data_ = std::make_shared<Data>(*data_);
  } else {
    // Orders the changes after the last reads of former owners.
    std::atomic_thread_fence(std::memory_order_acquire);
  }
  return *data_;
}

SymbolId Graph::add_symbol(std::string name, std::int64_t min, std::int64_t max) {
  if (min < 0 || max < min)
    throw Error(ErrorCode::kInvalidArgument, "symbol '" + name + "': its bounds are invalid");
  for (const Symbol& other : symbols())
    if (other.name == name)
      throw Error(ErrorCode::kInvalidArgument, "there is a symbol '" + name + "' already");
  auto& symbols = change().symbols;
  symbols.push_back({std::move(name), min, max});
  return static_cast<SymbolId>(symbols.size()) - 1;
}

ValueId Graph::add_value(ValueInfo info) {
  auto& values = change().values;
  values.push_back(std::move(info));
  const ValueId id = static_cast<ValueId>(values.size()) - 1;
  add_name(id);
  return id;
}

void Graph::rename(ValueId value, std::string name) {
  if (value < 0 || index(value) >= values().size())
    throw Error(ErrorCode::kInvalidArgument, "there is no value " + std::to_string(value));
  change().values[index(value)].name = std::move(name);
  add_name(value);
}

void Graph::set_source(NodeId node, const std::source_location& where) {
  if (node < 0 || index(node) >= nodes().size())
    throw Error(ErrorCode::kInvalidArgument, "there is no node " + std::to_string(node));
  change().nodes[index(node)].source = {where};
}

void Graph::add_name(ValueId value) {
  Data& own = change();
  const auto put = [&](ValueId id) {
    std::size_t at = std::hash<std::string_view>()(own.values[index(id)].name);
    while (own.names[at &= own.names.size() - 1] != kNoValue) ++at;
    own.names[at] = id;
  };
  if (2 * ++own.n_names <= own.names.size()) return put(value);
  own.names.assign(std::max<std::size_t>(16, 4 * own.values.size() - 1), kNoValue);
  own.names.resize(std::bit_ceil(own.names.size()), kNoValue);
  own.n_names = own.values.size();
  for (std::size_t v = 0; v < own.values.size(); ++v) put(static_cast<ValueId>(v));
}

ValueId Graph::add_input(std::string name, DType dtype, Shape shape) {
  check_type(name, dtype);
  return add_value({std::move(name), ValueKind::kInput, dtype, shape, kNoNode});
}
ValueId Graph::add_weight(std::string name, DType dtype, Shape shape) {
  check_type(name, dtype);
  return add_value({std::move(name), ValueKind::kWeight, dtype, shape, kNoNode});
}
ValueId Graph::add_state(std::string name, DType dtype, Shape shape) {
  check_type(name, dtype);
  return add_value({std::move(name), ValueKind::kState, dtype, shape, kNoNode});
}

ValueId Graph::add(Op op, std::span<const ValueId> inputs, std::string name, NodeTag tag) {
  Node node{std::move(op), {}, kNoValue, tag};
  node.inputs.reserve(inputs.size());
  std::vector<ValueType> types;
  types.reserve(inputs.size());
  const auto end = std::find(inputs.begin(), inputs.end(), kNoValue);
  if (!std::all_of(end, inputs.end(), [](ValueId input) { return input == kNoValue; }))
    throw Error(ErrorCode::kInvalidArgument, name + ": an empty input precedes another input");
  for (const ValueId input : inputs.first(to_size(end - inputs.begin()))) {
    if (input < 0 || index(input) >= values().size())
      throw Error(ErrorCode::kInvalidArgument, name + ": there is no value " + std::to_string(input));
    node.inputs.push_back(input);
    types.push_back({value(input).dtype, value(input).shape});
  }
  ValueType type;
  try {
    type = infer(node.op, types);
  } catch (const Error& error) {
    std::string what = name + ": " + error.what() + " (inputs";
    for (const ValueId input : node.inputs)
      what += " " + value(input).name + " " + to_string(value(input).shape, symbols());
    throw Error(error.code(), what + ")");
  }
  node.output = add_value(
      {std::move(name), ValueKind::kResult, type.dtype, type.shape, static_cast<NodeId>(nodes().size())});
  change().nodes.push_back(std::move(node));
  return nodes().back().output;
}

std::string Graph::free_name(std::string_view stem) const {
  for (std::size_t i = nodes().size();; ++i)
    if (std::string name = std::string(stem) + "_" + std::to_string(i); find(name) == kNoValue) return name;
}

void Graph::add_output(ValueId value) {
  if (value < 0 || index(value) >= values().size())
    throw Error(ErrorCode::kInvalidArgument, "there is no value " + std::to_string(value));
  change().outputs.push_back(value);
}

ValueId Graph::find(std::string_view name) const {
  const std::vector<ValueId>& names = data().names;
  if (names.empty()) return kNoValue;
  for (std::size_t at = std::hash<std::string_view>()(name);; ++at) {
    const ValueId id = names[at &= names.size() - 1];
    if (id == kNoValue || value(id).name == name) return id;
  }
}

bool Graph::is_output(ValueId value) const {
  return std::find(outputs().begin(), outputs().end(), value) != outputs().end();
}

std::vector<std::int64_t> Graph::bounds() const {
  std::vector<std::int64_t> result;
  for (const Symbol& symbol : symbols()) result.push_back(symbol.max);
  return result;
}

bool changes_state(const Node& node) {
  return get_op<ops::StoreCache>(node) != nullptr || get_op<ops::MoveCells>(node) != nullptr ||
         get_op<ops::ShortConv>(node) != nullptr || get_op<ops::SelectiveScan>(node) != nullptr ||
         get_op<ops::DeltaRule>(node) != nullptr;
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
  for (const ValueId output : graph.outputs()) wanted[to_size(output)] = true;
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    live[i] = changes_state(node) || wanted[to_size(node.output)];
    if (!live[i]) continue;
    for (const ValueId input : node.inputs) wanted[to_size(input)] = true;
  }
  return live;
}

std::string to_string(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    const ValueInfo& out = graph.value(node.output);
    text += out.name + " " + to_string(out.shape, graph.symbols()) + " = " + std::string(to_string(node.op)) +
            "(";
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
    text += "  n" + std::to_string(i) + " [label=\"" + std::string(to_string(node.op)) + "\\n" + out.name +
            " " + to_string(out.shape, graph.symbols()) + "\"];\n";
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph.value(input).producer;
      if (producer != kNoNode) text += "  n" + std::to_string(producer) + " -> n" + std::to_string(i) + ";\n";
    }
  }
  return text + "}\n";
}

}  // namespace weft
