// Since 0.1
#pragma once
// A graph: values and the nodes that make them. Nodes are in the order of addition, in which they can also
// run. A graph is built once per model.
//
// Sizes that differ from step to step are symbols with bounds (shape.h). So one graph serves prompts of any
// length and any number of sequences, and is compiled once (plan.h).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/graph/op.h"
#include "weft/graph/shape.h"

#pragma GCC visibility push(default)

namespace weft {

using NodeId = std::int32_t;
inline constexpr NodeId kNoNode = -1;
/// The index of a value or node, for lists by ids.
constexpr std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

enum class ValueKind : std::uint8_t {
  kInput,   ///< Written by the host before a step.
  kWeight,  ///< Constant, bound when the plan is compiled.
  kState,   ///< Lives between steps (a cache), bound when the plan is compiled.
  kResult,  ///< Made by a node.
};

struct ValueInfo {
  std::string name;
  ValueKind kind = ValueKind::kResult;
  DType dtype = DType::kF32;
  Shape shape;
  NodeId producer = kNoNode;
  friend bool operator==(const ValueInfo&, const ValueInfo&) = default;
};

/// The role of a node in a model.
enum class Part : std::uint8_t {
  kOther,        ///< Not part of a model.
  kEmbedding,    ///< From the tokens to the first layer's input.
  kAttention,    ///< A layer's attention, with its norms, projections and caches.
  kRecurrent,    ///< A recurrent layer's counterpart of attention.
  kFeedForward,  ///< With the router, where the layer has experts.
  kExperts,      ///< Products with the experts' weights, and the nodes between and after them.
  kHead,         ///< From the last layer to the logits.
};

/// A node's place in the model. The builder of a graph sets it. Names are for display and for users'
/// patterns.
struct NodeTag {
  static constexpr int kNone = -1;
  Part part = Part::kOther;
  int layer = kNone;
  int shard = kNone;  ///< The device of the node, if devices compute a layer together.
  friend bool operator==(const NodeTag&, const NodeTag&) = default;
};

/// The line of the user's program that made a node, for errors; line 0: not known. Graphs may be the same
/// with nodes written elsewhere.
struct Source {
  std::source_location where = {};
  friend bool operator==(const Source&, const Source&) { return true; }
};

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  ValueId output = kNoValue;
  NodeTag tag = {};
  Source source = {};
  friend bool operator==(const Node&, const Node&) = default;
};

class Value;

/// A value type: copies are independent and cheap. They share memory until one of them is changed, which
/// invalidates references into the graph.
class Graph {
 public:
  // As people write it (value.h). All throw Error kInvalidArgument with the user's line: for a name that is
  // taken, for bounds and shapes that make no sense.

  /// A size that each step says, from min to max.
  Dim symbol(std::string name, std::int64_t min, std::int64_t max,
             std::source_location where = std::source_location::current());
  Value input(std::string name, Shape shape, DType dtype = DType::kF32,
              std::source_location where = std::source_location::current());
  Value weight(std::string name, DType dtype, Shape shape,
               std::source_location where = std::source_location::current());
  Value weight(std::string name, Shape shape, std::source_location where = std::source_location::current());
  Value state(std::string name, DType dtype, Shape shape,
              std::source_location where = std::source_location::current());
  /// A result that the host reads after a step, under this name. An unnamed result gets the name. A named one
  /// keeps its own, and a copy of it is the output. So a value may be several outputs, or an input and an
  /// output. Returns the value of that name.
  Value output(std::string name, Value value, std::source_location where = std::source_location::current());

  // The base of the language in value.h, by ids.
  SymbolId add_symbol(std::string name, std::int64_t min, std::int64_t max);
  ValueId add_input(std::string name, DType dtype, Shape shape);
  ValueId add_weight(std::string name, DType dtype, Shape shape);
  ValueId add_state(std::string name, DType dtype, Shape shape);
  /// Adds a node and returns its result. Inputs that are kNoValue are left out. They must be the last of the
  /// list, and optional for the op. Throws Error kInvalidArgument that names the result for inputs that are
  /// none of the graph's, and where the shape rule refuses.
  ValueId add(Op op, std::span<const ValueId> inputs, std::string name, NodeTag tag = {});
  template <typename T>
    requires(!HasNamedInputs<T>)
  ValueId add(T op, std::initializer_list<ValueId> inputs, std::string name, NodeTag tag = {}) {
    return add(Op(std::move(op)), std::span(inputs.begin(), inputs.size()), std::move(name), tag);
  }
  template <HasNamedInputs T>
  ValueId add(T op, const typename T::Inputs& inputs, std::string name, NodeTag tag = {}) {
    return add(Op(std::move(op)), std::span<const ValueId>(input_list<T>(inputs)), std::move(name), tag);
  }
  void rename(ValueId value, std::string name);
  /// Says where the node was written.
  void set_source(NodeId node, const std::source_location& where);
  /// "stem_N", which no value is called.
  std::string free_name(std::string_view stem) const;
  /// Marks a value that the host reads after a step. Throws Error kInvalidArgument where there is none.
  void add_output(ValueId value);

  std::span<const Symbol> symbols() const { return data().symbols; }
  std::span<const ValueInfo> values() const { return data().values; }
  std::span<const Node> nodes() const { return data().nodes; }
  std::span<const ValueId> outputs() const { return data().outputs; }
  bool is_output(ValueId value) const;
  const ValueInfo& value(ValueId id) const { return data().values[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return data().nodes[static_cast<std::size_t>(id)]; }
  ValueId find(std::string_view name) const;  ///< kNoValue where there is none.

  /// The upper bounds of all symbols.
  std::vector<std::int64_t> bounds() const;
  /// Whether they are the same, node for node, with all names.
  friend bool operator==(const Graph& a, const Graph& b) {
    return a.data_ == b.data_ ||
           (a.data().symbols == b.data().symbols && a.data().values == b.data().values &&
            a.data().nodes == b.data().nodes && a.data().outputs == b.data().outputs);
  }

 private:
  struct Data {
    std::vector<Symbol> symbols;
    std::vector<ValueInfo> values;
    /// Values by the hashes of their names, with linear probing: a table of 2^n places, at least half of them
    /// empty. Values that were renamed stay at their old names, too.
    std::vector<ValueId> names;
    std::size_t n_names = 0;
    std::vector<Node> nodes;
    std::vector<ValueId> outputs;
  };
  static const Data& nothing();
  const Data& data() const { return data_ != nullptr ? *data_ : nothing(); }
  /// Its own.
  Data& change();
  ValueId add_value(ValueInfo info);
  void add_name(ValueId value);

  std::shared_ptr<Data> data_;  // Null: empty. Not changed while another graph shares it.
};

/// The op as a value of type T, or null.
template <typename T>
const T* get_op(const Node& node) {
  return std::get_if<T>(&node.op);
}

/// The inputs of a node, which must be of op T, by their names.
template <HasNamedInputs T>
typename T::Inputs named_inputs(const Node& node) {
  return named_inputs<T>(std::span<const ValueId>(node.inputs));
}

/// Whether a node changes a state: then it runs even if its result is not read.
bool changes_state(const Node& node);
/// The state of a value: a state itself, or a cache after moves and stores. kNoValue for others.
ValueId state_behind(const Graph& graph, ValueId value);
/// By node: whether the host or a state gets anything of it.
std::vector<bool> live_nodes(const Graph& graph);

/// One line per node, for people.
std::string to_string(const Graph& graph);
/// For Graphviz.
std::string to_dot(const Graph& graph);

}  // namespace weft

#pragma GCC visibility pop
