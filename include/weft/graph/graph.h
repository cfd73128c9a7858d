// Since 0.1
#pragma once
// A graph: values, and the nodes that compute them. Nodes are stored in the order of addition, which is a
// valid order of execution.
//
// Sizes that differ between steps are symbols with bounds (shape.h). So a graph is built and compiled once
// (weft/plan.h), for prompts of any length and any number of sequences.
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

#ifndef __cpp_lib_source_location
#error "weft needs C++20 with std::source_location: -std=c++20, and GCC 11, Clang 16 or newer"
#endif

#include "weft/graph/op.h"
#include "weft/graph/shape.h"

#pragma GCC visibility push(default)

namespace weft {

using NodeId = std::int32_t;
inline constexpr NodeId kNoNode = -1;
/// A value's or node's id as an index.
constexpr std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

enum class ValueKind : std::uint8_t {
  kInput,   ///< Written by the host before a step.
  kWeight,  ///< Constant; bound when the plan is compiled.
  kState,   ///< Kept between steps (a cache); bound when the plan is compiled.
  kResult,  ///< Computed by a node.
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
  kFeedForward,  ///< Including the router, if the layer has experts.
  kExperts,      ///< Products with the experts' weights, and the nodes between and after them.
  kHead,         ///< From the last layer to the logits.
};

/// A node's place in the model, which the code that builds the graph sets. Placement uses it; names of values
/// are for display and pins.
struct NodeTag {
  static constexpr int kNone = -1;
  Part part = Part::kOther;
  int layer = kNone;
  int shard = kNone;  ///< The index of its device, if devices compute a layer together (tensor parallelism).
  friend bool operator==(const NodeTag&, const NodeTag&) = default;
};

/// The program's source line that made a node, for errors. Line 0: unknown. Equality of graphs ignores it.
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

/// A value type: copies are independent and cheap (copy on write). Changing a graph that shares memory with a
/// copy invalidates references into it. One thread at a time uses a graph.
class Graph {
 public:
  // For programs, with the functions of value.h. All throw Error kInvalidArgument, with the program's line,
  // for a name that is taken and for impossible bounds and shapes.

  /// A symbolic size, which each step sets, from min to max.
  Dim symbol(std::string name, std::int64_t min, std::int64_t max,
             std::source_location where = std::source_location::current());
  Value input(std::string name, Shape shape, DType dtype = DType::kF32,
              std::source_location where = std::source_location::current());
  Value weight(std::string name, DType dtype, Shape shape,
               std::source_location where = std::source_location::current());
  Value weight(std::string name, Shape shape, std::source_location where = std::source_location::current());
  Value state(std::string name, DType dtype, Shape shape,
              std::source_location where = std::source_location::current());
  /// Makes a value an output, which the host can read by this name after a step. An unnamed result gets the
  /// name. A named value keeps its name, and a copy of it becomes the output. So one value may be several
  /// outputs, and an input may be an output. Returns the output.
  Value output(std::string name, Value value, std::source_location where = std::source_location::current());

  // The same by ids; value.h is built on these.
  SymbolId add_symbol(std::string name, std::int64_t min, std::int64_t max);
  ValueId add_input(std::string name, DType dtype, Shape shape);
  ValueId add_weight(std::string name, DType dtype, Shape shape);
  ValueId add_state(std::string name, DType dtype, Shape shape);
  /// Adds a node and returns its result. Optional inputs, which are last in the list, may be kNoValue or left
  /// out. Throws Error kInvalidArgument, with the result's name, for inputs that the graph does not have and
  /// for types and shapes that the op refuses.
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
  /// Sets the program's line that made the node.
  void set_source(NodeId node, const std::source_location& where);
  /// A name "stem_N" that no value has.
  std::string free_name(std::string_view stem) const;
  /// Makes a value an output. Throws Error kInvalidArgument if there is no such value.
  void add_output(ValueId value);

  std::span<const Symbol> symbols() const { return data().symbols; }
  std::span<const ValueInfo> values() const { return data().values; }
  std::span<const Node> nodes() const { return data().nodes; }
  std::span<const ValueId> outputs() const { return data().outputs; }
  bool is_output(ValueId value) const;
  const ValueInfo& value(ValueId id) const { return data().values[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return data().nodes[static_cast<std::size_t>(id)]; }
  ValueId find(std::string_view name) const;  ///< kNoValue: none.

  /// The upper bounds of all symbols.
  std::vector<std::int64_t> bounds() const;
  /// Whether both have the same nodes in the same order, with the same names.
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
  /// The data for changes: copied first if another graph shares it.
  Data& change();
  ValueId add_value(ValueInfo info);
  void add_name(ValueId value);

  std::shared_ptr<Data> data_;  // Null: empty. Not changed while another graph shares it.
};

/// The node's op if it is a T, or null.
template <typename T>
const T* get_op(const Node& node) {
  return std::get_if<T>(&node.op);
}

/// The inputs of a node by their names. Its op must be a T.
template <HasNamedInputs T>
typename T::Inputs named_inputs(const Node& node) {
  return named_inputs<T>(std::span<const ValueId>(node.inputs));
}

/// Whether a node changes a state. Such a node runs even if its result is not read.
bool changes_state(const Node& node);
/// The state that a value is, or that it results from by MoveCells and StoreCache nodes. kNoValue: none.
ValueId state_behind(const Graph& graph, ValueId value);
/// For each node, whether an output or a state depends on it.
std::vector<bool> live_nodes(const Graph& graph);

/// One line per node, for display.
std::string to_string(const Graph& graph);
/// For Graphviz.
std::string to_dot(const Graph& graph);

}  // namespace weft

#pragma GCC visibility pop
