// Since 0.1
#pragma once
// Plans: a graph placed on devices, compiled once, and run step by step.
//
//   weft::Plan plan(g, weft::find_devices(), {.pins = {{"up.*", "vulkan0"}}});
//   plan.set_weight("up.weight", bytes);
//   plan.run({{n, 7}}, {{"x", seven_rows}});
//   plan.read("y", out);
//
// Each node goes where a pin says, and otherwise where a step costs least among the devices that can compute
// it. Memory is laid out for the upper bounds of all symbols, once; a step says their values and the inputs
// that are new, and nothing is planned again.
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

/// Opened devices, which plans share. A copy is the same devices.
class Devices {
 public:
  explicit Devices(std::shared_ptr<const exec::DeviceSet> set) : set_(std::move(set)) {}
  std::vector<DeviceInfo> infos() const;
  const exec::DeviceSet& set() const { return *set_; }

 private:
  std::shared_ptr<const exec::DeviceSet> set_;
};

/// Opens the devices of these names, as `devices` lists them (NAME=DEVICE gives one another name, and opens
/// it once more), and the CPU, which takes what no other can. Empty: the CPU and all GPUs. Throws Error
/// kNotFound that names the devices there are, and what devices throw.
Devices find_devices(std::span<const std::string> names = {});
Devices find_devices(std::initializer_list<std::string> names);
Devices find_devices(std::string_view name);
/// The same of a registry that the program has added backends to (weft/backend.h). It must have a device
/// "cpu", as that of find_backends has, and is not needed any more once devices are open.
Devices find_devices(const Registry& registry, std::span<const std::string> names = {});
Devices find_devices(const Registry& registry, std::initializer_list<std::string> names);

/// A value of a step, while its plan is debugged. What it refers to is gone after the call.
struct WatchedValue {
  std::string_view name;
  DType dtype = DType::kF32;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Memory for the temporaries of plans that share it: as much as the largest needs, once.
std::shared_ptr<Workspaces> make_workspaces();

struct PlanParams {
  Changes allowed = {.shapes = true};
  /// Nodes whose result, weights or states have a name in which the pattern is found. The last that fits
  /// wins.
  std::vector<Pin> pins = {};
  int n_threads = 0;  ///< Of the host. 0: as many as there are cores.
  /// Plans with the same one must be run by turns: no step of one may begin, on any thread, before that of
  /// another has ended. Nothing checks that. Null: the plan has its own.
  std::shared_ptr<Workspaces> workspaces = nullptr;
  /// For debugging: after each run, `watch` is called with every result in whose name this regular expression
  /// (PCRE2) is found, in the order of the nodes. Nothing is fused away that is watched, so sums may round
  /// otherwise than they do unwatched.
  std::string watched = {};
  std::function<void(const WatchedValue&)> watch = nullptr;
};

/// For people; as JSON, for programs; as a drawing, for Graphviz.
enum class Explain : std::uint8_t { kText, kJson, kDot };

/// What inputs and outputs have for elements.
template <typename T>
concept PlanElement = std::same_as<T, float> || std::same_as<T, std::int32_t>;

/// What a weight's numbers may be given as: elements of its type, or its bytes. std::uint16_t holds the bits
/// of F16 and BF16.
template <typename T>
concept WeightElement =
    PlanElement<T> || std::same_as<T, double> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::int16_t> || std::same_as<T, std::int8_t> || std::same_as<T, std::uint16_t> ||
    std::same_as<T, std::byte> || std::same_as<T, std::uint8_t>;

/// Used by one thread at a time. All that throws leaves the plan as it was, but for run where a device fails.
class Plan {
 public:
  /// A symbol, as Graph::symbol gave it or by its name, and its value in a step.
  struct SymbolValue {
    Dim symbol;
    std::string_view name = {};  ///< Empty: `symbol` says which.
    std::int64_t value = 0;
    SymbolValue(Dim dim, std::int64_t v) : symbol(std::move(dim)), value(v) {}
    SymbolValue(std::string_view symbol_name, std::int64_t v) : name(symbol_name), value(v) {}
  };
  /// The elements of an input, as many as its shape has in the step; of a vector, array or span of numbers,
  /// or their bytes.
  struct InputData {
    std::string_view name;
    std::span<const std::byte> bytes;
    std::optional<DType> dtype = {};  ///< Of the elements; none: of bytes that may be anything.
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
  /// that fits nothing, kNotFound for a pin's device that is not there, kUnsupported for a node that no
  /// device, or not the one that it is pinned to, can compute.
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

  /// All weights that the file has under the graph's names. The plan keeps the file. Throws Error
  /// kInvalidArgument that names a weight which has another type or shape there.
  void set_weights(const WeightFile& file);

  /// One step. Symbols and inputs that are not given are those of the step before; what changed is found out
  /// by comparing. The first step compiles. Throws Error kInvalidArgument that names what is missing, past
  /// its bounds, of another size or not allowed; nothing was run then. Throws what devices throw (kDevice,
  /// kOutOfMemory): what the step was to write is undefined then, and another can be tried, to which all
  /// inputs are given; symbols are still those of the last step that ended well.
  void run(std::span<const SymbolValue> symbols, std::span<const InputData> inputs);
  void run(std::initializer_list<SymbolValue> symbols = {}, std::initializer_list<InputData> inputs = {});

  /// The same beside the host: returns as soon as the inputs may be written anew, and where devices work
  /// beside the host, steps overlap. From then on, until finish, outputs are those of the step before (none
  /// behind the first), which is done. A step that changes more than shapes waits for the ones before, as
  /// does a plan that allows no changed tensors. Throws as run does, also what the step before threw.
  void start(std::span<const SymbolValue> symbols, std::span<const InputData> inputs);
  void start(std::initializer_list<SymbolValue> symbols = {}, std::initializer_list<InputData> inputs = {});
  /// Waits until all that was started is done: outputs are those of the last step.
  void finish();

  /// Another graph from the next step on: changed topology, which the plan must allow. Weights that both
  /// graphs have under the same name, of the same type and shape, stay set, on whatever devices the new graph
  /// reads them. Other weights must be set. Weights that the new graph does not have are forgotten. States
  /// stay likewise, and others start empty. All inputs must be given. Splits that are as before, node for
  /// node, are not compiled again, where the plan allows changed shapes and tensors. Throws as the
  /// constructor does, what devices throw, and kUnsupported for a state that would move to another device.
  void set_graph(Graph graph);

  /// An output of the last step: its dimensions, and its elements. Throws Error kNotFound where there is none
  /// of that name, kInvalidArgument before the first step or where `to` has another size.
  std::vector<std::int64_t> shape(std::string_view output) const;
  void read(std::string_view output, std::span<std::byte> to) const;
  template <std::ranges::contiguous_range R>
    requires PlanElement<std::ranges::range_value_t<R>>
  void read(std::string_view output, R&& to) const {
    check_type(output, dtype_of<std::ranges::range_value_t<R>>());
    read(output, std::as_writable_bytes(std::span(std::ranges::data(to), std::ranges::size(to))));
  }
  /// The elements of an output in a vector of their number. Throws kInvalidArgument where T is not their
  /// type.
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
  /// Splits, what is copied between them, and the memory that each device needs.
  std::string explain(Explain as = Explain::kText) const;

 private:
  template <typename T>
  static constexpr DType dtype_of() {
    return std::same_as<T, float> ? DType::kF32 : DType::kI32;
  }
  void check_type(std::string_view output, DType dtype) const;

  /// The types of weights whose elements are Ts; empty: of any, as T is a byte.
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
