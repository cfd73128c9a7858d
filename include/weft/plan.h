// Since 0.1
#pragma once
// Plans: a graph placed on devices, compiled once, and run step by step.
//
//   weft::Plan plan(g, weft::find_devices(), {.pins = {{"up.*", "vulkan0"}}});
//   plan.set_weight("up.weight", bytes);
//   plan.run({{n, 7}}, {{"x", seven_rows}});
//   plan.read("y", out);
//
// A pin places a node on a device. Other nodes go to the supporting device where a step costs least. Memory
// for the upper bounds of all symbols is reserved once. A step gives their values and the new inputs; nothing
// is planned again.
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

/// Open devices, shared by plans. A copy refers to the same devices.
class Devices {
 public:
  explicit Devices(std::shared_ptr<const exec::DeviceSet> set) : set_(std::move(set)) {}
  std::vector<DeviceInfo> infos() const;
  const exec::DeviceSet& set() const { return *set_; }

 private:
  std::shared_ptr<const exec::DeviceSet> set_;
};

/// Opens the devices with these names, as `devices` lists them (NAME=DEVICE opens one again under another
/// name). Adds the CPU, which takes nodes that no other device supports. Empty: the CPU and all GPUs. Throws
/// Error kNotFound with the names of all devices, and errors of devices.
Devices find_devices(std::span<const std::string> names = {});
Devices find_devices(std::initializer_list<std::string> names);
Devices find_devices(std::string_view name);
/// The same with a registry that has the program's backends (weft/backend.h). It must have a device "cpu", as
/// the registry of find_backends has. It is not needed after the call.
Devices find_devices(const Registry& registry, std::span<const std::string> names = {});
Devices find_devices(const Registry& registry, std::initializer_list<std::string> names);

/// A value of a step, for debugging. Valid during the call.
struct WatchedValue {
  std::string_view name;
  DType dtype = DType::kF32;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Shared memory for temporaries of plans, as large as the largest plan needs.
std::shared_ptr<Workspaces> make_workspaces();

struct PlanParams {
  Changes allowed = {.shapes = true};
  /// Nodes whose result, weights or states have names that contain the pattern. The last match wins.
  std::vector<Pin> pins = {};
  int n_threads = 0;  ///< Host threads. 0: the number of cores.
  /// Plans with the same workspaces must run in turns: a step of one may begin, on any thread, only after the
  /// step of another has ended. This is not checked. Null: the plan has its own.
  std::shared_ptr<Workspaces> workspaces = nullptr;
  /// For debugging: after each run, calls `watch` with every result whose name contains this regular
  /// expression (PCRE2), in the order of nodes. Watched results are not fused away, so sums may round
  /// differently.
  std::string watched = {};
  std::function<void(const WatchedValue&)> watch = nullptr;
};

/// For display; as JSON, for programs; as a drawing, for Graphviz.
enum class Explain : std::uint8_t { kText, kJson, kDot };

/// Element types of inputs and outputs.
template <typename T>
concept PlanElement = std::same_as<T, float> || std::same_as<T, std::int32_t>;

/// Element types of weights: elements of the weight's type, or its bytes. std::uint16_t holds the bits of F16
/// and BF16.
template <typename T>
concept WeightElement =
    PlanElement<T> || std::same_as<T, double> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::int16_t> || std::same_as<T, std::int8_t> || std::same_as<T, std::uint16_t> ||
    std::same_as<T, std::byte> || std::same_as<T, std::uint8_t>;

/// Used by one thread at a time. Strong exception guarantee, except that outputs are undefined after a device
/// fails in run().
class Plan {
 public:
  /// A symbol, as Graph::symbol gave it or by its name, and its value in a step.
  struct SymbolValue {
    Dim symbol;
    std::string_view name = {};  ///< Empty: see `symbol`.
    std::int64_t value = 0;
    SymbolValue(Dim dim, std::int64_t v) : symbol(std::move(dim)), value(v) {}
    SymbolValue(std::string_view symbol_name, std::int64_t v) : name(symbol_name), value(v) {}
  };
  /// The elements of an input, with the number that its shape has in the step: a vector, array or span of
  /// numbers, or their bytes.
  struct InputData {
    std::string_view name;
    std::span<const std::byte> bytes;
    std::optional<DType> dtype = {};  ///< The type of elements; none: untyped bytes.
    InputData(std::string_view input, std::span<const std::byte> data) : name(input), bytes(data) {}
    template <std::ranges::contiguous_range R>
      requires PlanElement<std::ranges::range_value_t<R>>
    InputData(std::string_view input, const R& data)
        : name(input),
          bytes(std::as_bytes(std::span(std::ranges::data(data), std::ranges::size(data)))),
          dtype(dtype_of<std::ranges::range_value_t<R>>()) {}
    /// {1.0f, 2.0f}, which must live until the call ends.
    template <PlanElement T>
    InputData(std::string_view input, std::initializer_list<T> data)
        : name(input), bytes(std::as_bytes(std::span(data.begin(), data.size()))), dtype(dtype_of<T>()) {}
  };

  /// Places the graph, and copies it. Throws Error: kInvalidArgument for a graph without outputs or a pin
  /// that fits nothing, kNotFound for an unknown device of a pin. Throws kUnsupported for a node that no
  /// device, or not its pinned one, can compute.
  Plan(Graph graph, Devices devices, PlanParams params = {});
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  /// The rows of a weight in its type, as GGUF stores them: bytes, or elements of that type. The caller keeps
  /// them, unchanged, as long as the plan. A device may read them in place, and set_graph reads them for a
  /// device that did not have the weight. So a temporary container does not compile. A weight that is set
  /// again after a step is a changed tensor, which the plan must allow. Throws Error kNotFound, and
  /// kInvalidArgument that names the weight for another number of bytes or another type of elements.
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

  /// Sets all weights of the graph that are in the file by name. The plan keeps the file. Throws Error
  /// kInvalidArgument with the name of a weight that has another type or shape there.
  void set_weights(const WeightFile& file);

  /// Runs one step. Symbols and inputs that are not given keep the values of the step before; changes are
  /// found by comparing. The first step compiles. Throws Error kInvalidArgument, and runs nothing, for
  /// symbols and inputs that are missing, out of bounds, of another size or not allowed; it names them. After
  /// errors of devices (kDevice, kOutOfMemory) all that the step was to write is undefined. Another step may
  /// be tried, which must give all inputs; symbols keep the values of the last successful step.
  void run(std::span<const SymbolValue> symbols, std::span<const InputData> inputs);
  void run(std::initializer_list<SymbolValue> symbols = {}, std::initializer_list<InputData> inputs = {});

  /// Runs one step asynchronously: returns as soon as the inputs may be overwritten. On asynchronous devices
  /// steps overlap. Until finish(), outputs are the results of the step before, which is complete (after the
  /// first start there are none). A step that changes more than shapes waits for earlier ones. So does every
  /// step of a plan that does not allow changed tensors. Throws as run does, also errors of the step before.
  void start(std::span<const SymbolValue> symbols, std::span<const InputData> inputs);
  void start(std::initializer_list<SymbolValue> symbols = {}, std::initializer_list<InputData> inputs = {});
  /// Waits for all started steps. Outputs are then the results of the last one.
  void finish();

  /// Replaces the graph from the next step on: changed topology, which the plan must allow. A weight with the
  /// same name, type and shape in both graphs stays set, on any devices. Other weights must be set. Weights
  /// that the new graph does not have are forgotten. States stay likewise; new ones start empty. All inputs
  /// must be given. If the plan allows changed shapes and tensors, splits that are equal node for node are
  /// not compiled again. Throws as the constructor does, errors of devices, and kUnsupported for a state that
  /// would move to another device.
  void set_graph(Graph graph);

  /// An output of the last step: its dimensions, and its elements. Throws Error kNotFound for an unknown
  /// name, kInvalidArgument before the first step or where `to` has another size.
  std::vector<std::int64_t> shape(std::string_view output) const;
  void read(std::string_view output, std::span<std::byte> to) const;
  template <std::ranges::contiguous_range R>
    requires PlanElement<std::ranges::range_value_t<R>>
  void read(std::string_view output, R&& to) const {
    check_type(output, dtype_of<std::ranges::range_value_t<R>>());
    read(output, std::as_writable_bytes(std::span(std::ranges::data(to), std::ranges::size(to))));
  }
  /// The elements of an output as a vector. Throws kInvalidArgument where T is not their type.
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
  /// The device of each node, by name.
  std::vector<std::string> placement() const;
  /// The splits, the copies between them, and the memory of each device.
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
