#pragma once
// The parts of a plan: the placed graph, its tensors, and the compiled plan that runs it.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/device_set.h"
#include "exec/plan.h"
#include "exec/search_pattern.h"
#include "exec/splits.h"
#include "weft/plan.h"

namespace weft {

/// While a step is in flight (Plan::start), outputs are results of the step before.
inline constexpr int kStepsAtOnce = 2;

/// Throws Error kInvalidArgument.
[[noreturn]] void refuse(const std::string& reason);
/// Refuses graphs that no device can rely on. Throws Error kInvalidArgument.
void check_graph(const Graph& graph);
/// Elements of a value with these symbols. Throws where a size is negative or overflows.
std::int64_t checked_elements(const Graph& graph, const ValueInfo& value,
                              std::span<const std::int64_t> symbols);
/// An input whose numbers say which rows, cells, slots or columns a node uses.
struct IndexUse {
  ValueId input = kNoValue;
  NodeId node = kNoNode;
  std::int64_t least = 0;  ///< Below 0: what means none.
  Dim end;
};
std::vector<IndexUse> index_uses(const Graph& graph);
/// Tables that nodes of attention go by. One for nodes that have the same.
struct AttentionUse {
  ops::Attention::Inputs in;
  bool chunked = false;   ///< Its windows begin at multiples of their size.
  NodeId node = kNoNode;  ///< The first.

  std::array<ValueId, 5> tables() const {
    return {in.positions, in.extents, in.counts, in.hidden_first, in.hidden};
  }
};
std::vector<AttentionUse> attention_uses(const Graph& graph);
/// Returns the content of an input in a step.
using TableOf = std::function<std::span<const std::byte>(ValueId)>;
/// Refuses tables that would lead kernels out of caches, or out of the tables.
void check_attention(const Graph& graph, const AttentionUse& use, const TableOf& table_of);
/// By value: weights of several rows that nodes read elementwise, like results. Devices pack matrices; these
/// are created as one row.
std::vector<bool> plain_weights(const Graph& graph);
/// Checks that a slice stays within its input. A shape rule can check that for constants only.
void check_slice(const Graph& graph, const Node& node, std::span<const std::int64_t> symbols);
/// "[2, 3]"
std::string sizes_text(std::span<const std::int64_t> dims);

// No business of programs, though the class is.
struct [[gnu::visibility("hidden")]] Plan::Impl {
  /// A graph, where its nodes are, and its tensors.
  struct Placed {
    Graph graph;
    std::vector<int> device_of;             // By node.
    std::vector<std::vector<int>> readers;  // By value: the devices that read it.
    exec::Splits splits;
    /// Values that might be larger with symbols below their upper bounds, and their largest sizes.
    std::vector<std::pair<ValueId, std::vector<std::int64_t>>> most_sizes;
    std::vector<std::vector<std::shared_ptr<DeviceTensor>>> tensors;  // By device and value.
    std::vector<bool> given;            // By value: weights that were set, inputs that a step brought.
    std::vector<WeightSource> sources;  // By value: of weights that were set.
    /// Weights that the graph before had with another type or shape, and with which.
    std::vector<std::pair<ValueId, std::string>> changed;
    std::vector<ValueId> inputs;
    std::vector<IndexUse> indices;
    std::vector<AttentionUse> attentions;
    std::vector<bool> plain_weights;  // By value.
    std::vector<NodeId> slices;
    std::vector<ValueId> watched;            // Results.
    std::vector<Bindings> bindings() const;  // By device.
  };

  Impl(Graph graph, Devices d, PlanParams p);

  void set_weights(const WeightFile& file);
  void set_weight(ValueId id, const WeightSource& source);
  /// A weight on the devices that read it.
  struct MadeWeight {
    ValueId id;
    WeightSource source;
    std::vector<std::pair<int, std::shared_ptr<DeviceTensor>>> tensors;
  };
  MadeWeight make_weight(ValueId id, const WeightSource& source) const;
  void take(std::vector<MadeWeight> made);
  void set_graph(Graph graph);
  void run(std::span<const SymbolValue> symbol_values, std::span<const InputData> inputs);
  void start(std::span<const SymbolValue> symbol_values, std::span<const InputData> inputs);
  void finish();

  /// A value of that kind and name.
  ValueId find(std::string_view name, ValueKind kind, const char* what) const;
  const std::string& device_name(int device) const;

  Devices devices;
  PlanParams params;
  std::optional<exec::SearchPattern> watched;
  Placed now;
  std::vector<WeightFile> files;  // The files of the weights.

  // For the next step: new bindings, and tensors that are kept until it is done.
  std::vector<exec::Rebinding> rebindings;
  std::vector<std::shared_ptr<DeviceTensor>> replaced;
  bool other_graph = false;

  // Symbols of the last step that was begun, and of the outputs that are read.
  std::vector<std::int64_t> last_symbols;
  std::vector<std::int64_t> read_symbols;
  bool has_result = false;
  /// Outputs of the step before one that was started and is done already. By value.
  std::vector<std::vector<std::byte>> held;
  bool started = false;

  std::optional<exec::Plan> plan;  // Last: devices and tensors outlive it.

 private:
  /// The checked arguments of a step.
  struct Brought {
    std::vector<std::int64_t> symbols;
    bool shapes = false;
    std::vector<ValueId> ids;  // Of the inputs.
  };

  Placed place(Graph graph) const;
  std::shared_ptr<DeviceTensor> make_tensor(const Placed& placed, ValueId weight, int device,
                                            const WeightSource& source) const;
  /// Gives the next graph's weight or state what the graph now has of it.
  void keep_weight(Placed& next, ValueId id) const;
  void keep_state(Placed& next, ValueId id) const;
  int home(const Placed& placed, ValueId id) const;
  Brought check(std::span<const SymbolValue> symbol_values, std::span<const InputData> inputs) const;
  std::vector<ValueId> check_inputs(std::span<const std::int64_t> symbols, bool shapes,
                                    std::span<const InputData> inputs) const;
  void check_sizes(std::span<const std::int64_t> symbols) const;
  /// The content of an input in this step; empty if it is unchanged and `always` is false.
  std::span<const std::byte> data_of(ValueId input, const Brought& brought, std::span<const InputData> inputs,
                                     bool always) const;
  void check_indices(const Brought& brought, std::span<const InputData> inputs) const;
  void check_tables(const Brought& brought, std::span<const InputData> inputs) const;
  void check_weights() const;
  std::size_t symbol_of(const SymbolValue& value) const;
  void write(const Brought& brought, std::span<const InputData> inputs);
  void forget_inputs();
  void show_watched() const;
};

}  // namespace weft
