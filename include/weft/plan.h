// Since 0.1
#pragma once
// Plans: a graph (weft/graph.h) is placed on devices, compiled once, and run in steps.
//
//   weft::Graph g;
//   auto n = g.symbol("n", 1, 512);
//   auto x = g.input("x", {n, 768});
//   g.output("y", weft::linear(x, g.weight("up.weight", {3072, 768})));
//
//   weft::Plan plan(g, weft::open_devices(), {.pins = {{"up.*", "vulkan0"}}});
//   plan.set_weight("up.weight", weights);         // std::vector<float>, which must outlive the plan
//   plan.run({{n, 7}}, {{"x", seven_rows}});       // std::vector<float> of 7 * 768
//   std::vector<float> y = plan.read("y");         // {7, 3072}
//
// A pin places nodes on a device by name. All other nodes are placed where a step is estimated to be fastest,
// on devices that support them. Memory is reserved once, for the upper bounds of all symbols. A step only
// sets the symbols' values and the inputs.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/device.h"
#include "weft/graph.h"
#include "weft/graph/changes.h"
#include "weft/weights.h"

namespace weft {
class Workspaces;
}
namespace weft::exec {
struct DeviceSet;
}

#pragma GCC visibility push(default)

namespace weft {

/// Opened devices, which plans share. A copy refers to the same devices.
class Devices {
 public:
  explicit Devices(std::shared_ptr<const exec::DeviceSet> set) : set_(std::move(set)) {}
  std::vector<DeviceInfo> infos() const;
  const exec::DeviceSet& set() const { return *set_; }

 private:
  std::shared_ptr<const exec::DeviceSet> set_;
};

/// Opens devices by their names in list_devices() (weft/device.h). "NAME=DEVICE" opens DEVICE under the name
/// NAME, also a second time. The CPU is always added: it takes nodes that no other device supports. No names:
/// the CPU and all GPUs. Throws Error kNotFound with the names of all devices, and errors of devices.
Devices open_devices(std::span<const std::string> names = {});
Devices open_devices(std::initializer_list<std::string> names);
Devices open_devices(std::string_view name);
/// The same from a registry with the program's own backends (weft/backend.h). The registry must have a device
/// "cpu", as the registry of load_backends() has. It may be destroyed after the call.
Devices open_devices(const Registry& registry, std::span<const std::string> names = {});
Devices open_devices(const Registry& registry, std::initializer_list<std::string> names);

// Deprecated names, for one version.
[[deprecated("use open_devices")]] inline Devices find_devices(std::span<const std::string> names = {}) {
  return open_devices(names);
}
[[deprecated("use open_devices")]] inline Devices find_devices(std::initializer_list<std::string> names) {
  return open_devices(names);
}
[[deprecated("use open_devices")]] inline Devices find_devices(std::string_view name) {
  return open_devices(name);
}
[[deprecated("use open_devices")]] inline Devices find_devices(const Registry& registry,
                                                               std::span<const std::string> names = {}) {
  return open_devices(registry, names);
}
[[deprecated("use open_devices")]] inline Devices find_devices(const Registry& registry,
                                                               std::initializer_list<std::string> names) {
  return open_devices(registry, names);
}

/// A result of a step, for PlanParams::watch. Valid during that call.
struct WatchedValue {
  std::string_view name;
  DType dtype = DType::kF32;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Memory for temporaries that several plans share: see PlanParams::workspaces. It grows to the largest that
/// any of them needs.
std::shared_ptr<Workspaces> make_workspaces();

struct PlanParams {
  /// What steps may change: values of symbols (shapes), weights (tensors), the graph (topology).
  Changes allowed = {.shapes = true};
  /// Placement rules: see Pin (weft/device.h). The last matching pin wins.
  std::vector<Pin> pins = {};
  int n_threads = 0;  ///< Host threads. 0: the number of cores.
  /// Memory for temporaries, shared with other plans. Their steps must not overlap: a step of one plan may
  /// begin, on any thread, only after the step of another has ended. This is not checked. Null: the plan has
  /// its own memory.
  std::shared_ptr<Workspaces> workspaces = nullptr;
  /// For debugging: after each run(), `watch` is called for each result whose name contains a match of this
  /// regular expression (PCRE2), in the order of the nodes. Such results are not fused with others, so their
  /// sums may round differently. A pattern that matches nothing is not an error; explain() says so. Empty:
  /// none.
  std::string watched = {};
  std::function<void(const WatchedValue&)> watch = nullptr;
};

/// The format of Plan::explain: for display, JSON for programs, or a drawing for Graphviz.
enum class Explain : std::uint8_t { kText, kJson, kDot };

/// Element types of inputs and outputs.
template <typename T>
concept PlanElement = std::same_as<T, float> || std::same_as<T, std::int32_t>;

/// Element types of weight data. std::uint16_t holds the bits of F16 or BF16. std::byte and std::uint8_t are
/// the bytes of any type, including quantised ones.
template <typename T>
concept WeightElement =
    PlanElement<T> || std::same_as<T, double> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::int16_t> || std::same_as<T, std::int8_t> || std::same_as<T, std::uint16_t> ||
    std::same_as<T, std::byte> || std::same_as<T, std::uint8_t>;

/// Used by one thread at a time. A call that throws changes nothing, except that outputs and states are
/// undefined after a device fails in a step.
class Plan {
 public:
  /// A symbol, by its Dim (the result of Graph::symbol) or its name, and its value in a step.
  struct SymbolValue {
    Dim symbol;
    std::string_view name = {};  ///< Empty: see `symbol`.
    std::int64_t value = 0;
    SymbolValue(Dim dim, std::int64_t v) : symbol(std::move(dim)), value(v) {}
    SymbolValue(std::string_view symbol_name, std::int64_t v) : name(symbol_name), value(v) {}
  };
  /// The data of an input in a step: a vector, array or span of its elements, or its bytes. The size must
  /// match the input's shape in the step.
  struct InputData {
    std::string_view name;
    std::span<const std::byte> bytes;
    std::optional<DType> dtype = {};  ///< The element type. nullopt: untyped bytes.
    InputData(std::string_view input, std::span<const std::byte> data) : name(input), bytes(data) {}
    template <std::ranges::contiguous_range R>
      requires PlanElement<std::ranges::range_value_t<R>>
    InputData(std::string_view input, const R& data)
        : name(input),
          bytes(std::as_bytes(std::span(std::ranges::data(data), std::ranges::size(data)))),
          dtype(dtype_of<std::ranges::range_value_t<R>>()) {}
    /// A list such as {1.0f, 2.0f}, which must live until the call ends.
    template <PlanElement T>
    InputData(std::string_view input, std::initializer_list<T> data)
        : name(input), bytes(std::as_bytes(std::span(data.begin(), data.size()))), dtype(dtype_of<T>()) {}
  };

  /// Copies the graph and places it on the devices. Throws Error kInvalidArgument for a graph without outputs
  /// and for a pin that matches nothing, and kNotFound for a pin to an unknown device. Throws kUnsupported
  /// for a node that no device can compute, or that its pinned device cannot.
  Plan(Graph graph, Devices devices, PlanParams params = {});
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  /// Sets the data of a weight: all rows in the weight's type and GGUF's layout, as bytes or elements. The
  /// data is not copied: the caller keeps it unchanged as long as the plan. Devices may use it in place, and
  /// set_graph() may read it again. A temporary container does not compile for that reason. Setting a weight
  /// again after a step needs PlanParams::allowed.tensors. Throws Error kNotFound for an unknown name, and
  /// kInvalidArgument for a wrong size or element type.
  void set_weight(std::string_view name, std::span<const std::byte> bytes);
  template <std::ranges::contiguous_range R>
    requires WeightElement<std::ranges::range_value_t<R>> && std::ranges::borrowed_range<R>
  void set_weight(std::string_view name, R&& data) {
    using T = std::ranges::range_value_t<R>;
    check_element(name, weight_types<T>());
    set_weight(name, std::as_bytes(std::span(std::ranges::data(data), std::ranges::size(data))));
  }
  template <std::ranges::contiguous_range R>
    requires(!std::ranges::borrowed_range<R>)
  void set_weight(std::string_view name, R&& data) = delete;

  /// Sets each weight of the graph that the file has under the same name. The plan keeps the file open.
  /// Throws Error kInvalidArgument, with the weight's name, if the file has another type or shape for it.
  void set_weights(const WeightFile& file);

  /// Runs one step; the first one compiles the graph. Symbols and inputs that are not given keep their last
  /// values. Throws Error kInvalidArgument, and runs nothing, if a symbol or input is missing, unknown, out
  /// of bounds or of a wrong size. The same holds for a change that is not allowed. The message names it.
  ///
  /// Throws kDevice or kOutOfMemory if a device fails. All outputs and states that the step writes are then
  /// undefined. Another step may be run; it must give all inputs, and symbols still have the values of the
  /// last successful step.
  void run(std::span<const SymbolValue> symbols, std::span<const InputData> inputs);
  void run(std::initializer_list<SymbolValue> symbols = {}, std::initializer_list<InputData> inputs = {});

  /// Starts one step and returns as soon as the inputs' memory may be reused. Steps on asynchronous devices
  /// overlap. Until finish(), outputs are the results of the step before this one, which is complete; after
  /// the first start() there are none. A step that changes more than shapes waits for earlier steps. If the
  /// plan does not allow changed tensors, each step waits. Throws like run(), including the errors of the
  /// step before.
  void start(std::span<const SymbolValue> symbols, std::span<const InputData> inputs);
  void start(std::initializer_list<SymbolValue> symbols = {}, std::initializer_list<InputData> inputs = {});
  /// Waits for all started steps. Outputs are then the results of the last one.
  void finish();

  /// Replaces the graph for the next steps; PlanParams::allowed.topology is needed. Weights and states with
  /// the same name, type and shape in both graphs stay as they are. Other weights of the new graph must be
  /// set, and other states start empty. Weights that only the old graph had are dropped. The next step must
  /// give all inputs. Splits with equal nodes are not compiled again if the plan allows changed shapes and
  /// tensors. Throws like the constructor, kUnsupported for a state that would move to another device, and
  /// errors of devices.
  void set_graph(Graph graph);

  /// The dimensions of an output in the last step; read() copies its elements in row-major order. Throws
  /// Error kNotFound for an unknown name, and kInvalidArgument before the first step or if `to` has another
  /// size.
  std::vector<std::int64_t> shape(std::string_view output) const;
  void read(std::string_view output, std::span<std::byte> to) const;
  template <std::ranges::contiguous_range R>
    requires PlanElement<std::ranges::range_value_t<R>>
  void read(std::string_view output, R&& to) const {
    check_type(output, dtype_of<std::ranges::range_value_t<R>>());
    read(output, std::as_writable_bytes(std::span(std::ranges::data(to), std::ranges::size(to))));
  }
  /// The elements of an output. Throws Error kInvalidArgument if T is not their type.
  template <PlanElement T = float>
  std::vector<T> read(std::string_view output) const {
    std::int64_t n = 1;
    for (const std::int64_t size : shape(output)) n *= size;
    std::vector<T> result(static_cast<std::size_t>(n));
    read(output, result);
    return result;
  }

  const Graph& graph() const;
  const PlanCounters& counters() const;
  /// The name of each node's device, in the order of nodes.
  std::vector<std::string> placement() const;
  /// Describes the placement: runs of nodes on one device (splits), copies between them, and the memory of
  /// each device.
  std::string explain(Explain as = Explain::kText) const;

 private:
  template <typename T>
  static constexpr DType dtype_of() {
    return std::same_as<T, float> ? DType::kF32 : DType::kI32;
  }
  void check_type(std::string_view output, DType dtype) const;

  /// The types of weights with elements of T; empty: any type, as T is a byte.
  template <WeightElement T>
  static std::span<const DType> weight_types() {
    static constexpr DType kF16OrBF16[] = {DType::kF16, DType::kBF16};
    static constexpr DType kOne[] = {std::same_as<T, float>          ? DType::kF32
                                     : std::same_as<T, double>       ? DType::kF64
                                     : std::same_as<T, std::int64_t> ? DType::kI64
                                     : std::same_as<T, std::int32_t> ? DType::kI32
                                     : std::same_as<T, std::int16_t> ? DType::kI16
                                                                     : DType::kI8};
    if constexpr (std::same_as<T, std::byte> || std::same_as<T, std::uint8_t>)
      return {};
    else if constexpr (std::same_as<T, std::uint16_t>)
      return kF16OrBF16;
    else
      return kOne;
  }
  void check_element(std::string_view weight, std::span<const DType> types) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
