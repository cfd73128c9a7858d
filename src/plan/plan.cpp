#include "weft/plan.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "exec/cheapest.h"
#include "exec/device_set.h"
#include "exec/pins.h"
#include "exec/placement.h"
#include "exec/plan.h"
#include "exec/splits.h"
#include "weft/backend/registry.h"
#include "weft/error.h"

namespace weft {
namespace {

constexpr int kMaxThreads = 1024;
/// Products of a few such sizes still fit into 64 bits, where they are refused for want of memory.
constexpr std::int64_t kMaxSymbol = std::int64_t{1} << 31;

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::kInvalidArgument, reason); }

std::vector<int> place(const Graph& graph, const exec::DeviceSet& set, std::span<const Pin> pins) {
  std::vector<int> fixed(graph.nodes().size(), -1);
  for (const Pin& pin : pins) {
    const int device = set.find(pin.device);
    const std::vector<bool> pinned = exec::pinned_nodes(graph, pin, *set.devices[index(device)]);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      if (pinned[n]) fixed[n] = device;
  }
  return exec::place_cheapest(graph, set, fixed);
}

/// What a shape rule does not say: which inputs lie as weights and states do. Devices rely on it.
void check_kinds(const Graph& graph, const Node& node) {
  const auto fail = [&](std::size_t i, const char* expected) {
    refuse(graph.value(node.output).name + " = " + std::string(name(node.op)) + ": input " +
           std::to_string(i) + " (" + graph.value(node.inputs[i]).name + ") must be " + expected);
  };
  // The inputs, by their places in the list, that are weights.
  std::vector<std::size_t> weights;
  if (get_op<ops::Matmul>(node) != nullptr || get_op<ops::MatmulExperts>(node) != nullptr) weights = {0};
  if (get_op<ops::Rope>(node) != nullptr && node.inputs.size() > 2) weights = {2};
  if (get_op<ops::ShortConv>(node) != nullptr) weights = {2};
  if (get_op<ops::SelectiveScan>(node) != nullptr) weights = {5};
  std::vector<std::size_t> states;
  if (get_op<ops::StoreCache>(node) != nullptr || get_op<ops::MoveCells>(node) != nullptr ||
      get_op<ops::ShortConv>(node) != nullptr || get_op<ops::SelectiveScan>(node) != nullptr)
    states = {0};
  if (get_op<ops::Attention>(node) != nullptr) states = {1, 2};
  const auto in = [](const std::vector<std::size_t>& list, std::size_t i) {
    return std::find(list.begin(), list.end(), i) != list.end();
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueInfo& value = graph.value(node.inputs[i]);
    const bool is_weight = value.kind == ValueKind::kWeight;
    const bool is_state = state_behind(graph, node.inputs[i]) != kNoValue;
    if (in(weights, i) && !is_weight) fail(i, "a weight");
    if (in(states, i) != is_state) fail(i, is_state ? "no state" : "a state");
    const bool table = get_op<ops::GetRows>(node) != nullptr && i == 0;
    if (table && !is_weight && value.dtype != DType::kF32) fail(i, "a weight, or f32");
    if (is_weight && value.shape.rank() > 1 && !in(weights, i) && !table)
      fail(i, "no weight of several rows");
    if (is_weight && value.dtype == DType::kI32) fail(i, "an input: whole numbers are no weights");
  }
}

/// Elements of a value with these symbols, each of 8 bytes at most. Refuses what memory cannot be laid out
/// for.
std::int64_t checked_elements(const Graph& graph, const ValueInfo& value,
                              std::span<const std::int64_t> symbols) {
  std::int64_t elements = 8;
  for (const std::int64_t size : value.shape.dims(symbols))
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements))
      refuse(value.name + " " + to_string(value.shape, graph.symbols()) + " has a size that no memory has");
  return elements / 8;
}

void check_graph(const Graph& graph, const PlanParams& params) {
  if (graph.outputs().empty()) refuse("the graph has no outputs, so there is nothing to compute");
  if (params.n_threads < 0 || params.n_threads > kMaxThreads)
    refuse("n_threads is " + std::to_string(params.n_threads) + ", it must be from 0 to " +
           std::to_string(kMaxThreads));
  std::vector<std::int64_t> least;
  for (const Symbol& symbol : graph.symbols()) {
    least.push_back(symbol.min);
    if (symbol.max > kMaxSymbol) refuse("symbol '" + symbol.name + "' goes past 2^31");
  }
  for (const ValueInfo& value : graph.values()) {
    checked_elements(graph, value, least);
    checked_elements(graph, value, graph.bounds());
  }
  for (const Node& node : graph.nodes()) check_kinds(graph, node);
}

std::string sizes_text(std::span<const std::int64_t> dims) {
  std::string text;
  for (const std::int64_t size : dims) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text.empty() ? "[]" : text + "]";
}

}  // namespace

std::vector<DeviceInfo> Devices::infos() const {
  std::vector<DeviceInfo> result;
  for (const auto& device : set_->devices) result.push_back(device->info());
  return result;
}

Devices find_devices(const Registry& registry, std::span<const std::string> names) {
  PlacementParams params;
  params.devices.assign(names.begin(), names.end());
  if (names.empty())
    for (const DeviceInfo& gpu : registry.gpus()) params.devices.push_back(gpu.name);
  return Devices(std::make_shared<const exec::DeviceSet>(exec::open_devices(registry, params, {})));
}
Devices find_devices(const Registry& registry, std::initializer_list<std::string> names) {
  return find_devices(registry, std::span(names.begin(), names.size()));
}
Devices find_devices(std::span<const std::string> names) { return find_devices(*find_backends(), names); }
Devices find_devices(std::initializer_list<std::string> names) {
  return find_devices(std::span(names.begin(), names.size()));
}

struct Plan::Impl {
  Impl(Graph g, Devices d, PlanParams p)
      : graph(std::move(g)),
        devices(std::move(d)),
        params(std::move(p)),
        device_of(place(graph, devices.set(), params.pins)),
        splits(exec::split(graph, device_of, devices.set().beside_host())),
        bindings(devices.set().devices.size(), Bindings(graph.values().size(), nullptr)),
        given(graph.values().size()) {
    const std::vector<std::int64_t> bounds = graph.bounds();
    for (std::size_t v = 0; v < graph.values().size(); ++v) {
      const ValueInfo& value = graph.values()[v];
      const auto id = static_cast<ValueId>(v);
      most_elements.push_back(checked_elements(graph, value, bounds));
      if (value.kind == ValueKind::kWeight) continue;
      if (value.kind == ValueKind::kResult && !graph.is_output(id)) continue;
      const int on = home(id);
      Device& device = *devices.set().devices[index(on)];
      const std::vector<std::int64_t> dims = value.shape.dims(bounds);
      bind(on, id,
           value.kind == ValueKind::kState ? device.create_state(value.dtype, dims)
                                           : device.create_host_tensor(value.dtype, dims));
    }
  }

  /// Where a value that no split makes or reads is.
  int home(ValueId id) const {
    const ValueInfo& value = graph.value(id);
    if (value.kind == ValueKind::kResult) return device_of[index(value.producer)];
    if (value.kind == ValueKind::kState)
      if (const std::vector<int> readers = exec::devices_reading(graph, device_of, id); !readers.empty())
        return readers.front();
    return splits.home[index(id)] >= 0 ? splits.home[index(id)] : devices.set().host;
  }

  void bind(int device, ValueId id, std::unique_ptr<DeviceTensor> tensor) {
    bindings[index(device)][index(id)] = tensor.get();
    tensors.push_back(std::move(tensor));
  }

  /// A value of that kind and name.
  ValueId find(std::string_view name, ValueKind kind, const char* what) const {
    const ValueId id = graph.find(name);
    if (id != kNoValue && graph.value(id).kind == kind && (kind != ValueKind::kResult || graph.is_output(id)))
      return id;
    std::string known;
    for (std::size_t v = 0; v < graph.values().size(); ++v)
      if (const ValueInfo& value = graph.values()[v];
          value.kind == kind && (kind != ValueKind::kResult || graph.is_output(static_cast<ValueId>(v))))
        known += (known.empty() ? "" : ", ") + value.name;
    throw Error(ErrorCode::kNotFound, "there is no " + std::string(what) + " '" + std::string(name) + "'" +
                                          (known.empty() ? "" : "; there are " + known));
  }

  void set_weight(std::string_view name, std::span<const std::byte> bytes) {
    const ValueId id = find(name, ValueKind::kWeight, "weight");
    const ValueInfo& value = graph.value(id);
    const std::vector<std::int64_t> dims = value.shape.dims({});
    const std::size_t expected =
        static_cast<std::size_t>(value.shape.rows({})) * row_bytes(value.dtype, value.shape.columns());
    if (bytes.size() != expected)
      refuse("weight '" + value.name + "' " + sizes_text(dims) + " of " +
             std::string(info(value.dtype).name) + " has " + std::to_string(expected) + " bytes, got " +
             std::to_string(bytes.size()));
    if (plan && !params.allowed.tensors)
      refuse("weight '" + value.name + "' is set again, and the plan does not allow changed tensors");
    std::vector<std::pair<int, std::unique_ptr<DeviceTensor>>> made;  // All or none.
    for (const int on : exec::devices_reading(graph, device_of, id))
      made.emplace_back(on, devices.set().devices[index(on)]->create_weight(
                                value.dtype, dims, {.bytes = bytes, .reader = {}, .name = {}}));
    for (auto& [device, tensor] : made) {
      if (plan) rebindings.push_back({id, tensor.get(), device});
      // The one before is used until the next step is bound.
      DeviceTensor* const before = std::exchange(bindings[index(device)][index(id)], tensor.get());
      if (!plan) std::erase_if(tensors, [&](const auto& owned) { return owned.get() == before; });
      if (plan && before != nullptr) replaced.push_back(before);
      tensors.push_back(std::move(tensor));
    }
    given[index(id)] = true;
  }

  void run(std::span<const SymbolValue> symbol_values, std::span<const InputData> inputs) {
    std::vector<std::int64_t> symbols = last_symbols;
    if (symbols.empty())
      for (const Symbol& symbol : graph.symbols())
        symbols.push_back(symbol.min == symbol.max ? symbol.min : -1);
    for (const SymbolValue& given_value : symbol_values)
      symbols[symbol_of(given_value.symbol)] = given_value.value;
    for (std::size_t s = 0; s < symbols.size(); ++s)
      if (const Symbol& symbol = graph.symbols()[s]; symbols[s] < symbol.min || symbols[s] > symbol.max)
        refuse(symbols[s] < 0 ? "the first step gives no value for symbol '" + symbol.name + "'"
                              : symbol.name + " = " + std::to_string(symbols[s]) + " is outside [" +
                                    std::to_string(symbol.min) + ", " + std::to_string(symbol.max) + "]");
    const bool shapes = !last_symbols.empty() && symbols != last_symbols;
    if (shapes && !params.allowed.shapes)
      refuse("a symbol changed, and the plan does not allow changed shapes");
    if (symbols != last_symbols) check_sizes(symbols);
    const std::vector<ValueId> ids = check_inputs(symbols, shapes, inputs);
    if (!plan) compile();
    has_result = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::span<std::byte> to = bindings[index(home(ids[i]))][index(ids[i])]->host();
      std::copy(inputs[i].bytes.begin(), inputs[i].bytes.end(), to.begin());
      given[index(ids[i])] = true;
    }
    exec::Step step;
    step.symbols = symbols;
    step.actual = {.shapes = shapes, .tensors = !rebindings.empty()};
    step.rebindings = rebindings;
    try {
      plan->run(step);
    } catch (...) {
      // Which step the inputs are of is not known any more.
      for (std::size_t v = 0; v < given.size(); ++v)
        if (graph.values()[v].kind == ValueKind::kInput) given[v] = false;
      throw;
    }
    has_result = true;
    rebindings.clear();
    for (DeviceTensor* const old : replaced)
      std::erase_if(tensors, [&](const auto& owned) { return owned.get() == old; });
    replaced.clear();
    last_symbols = std::move(symbols);
  }

  std::size_t symbol_of(const Dim& dim) const {
    for (std::size_t s = 0; s < graph.symbols().size(); ++s)
      if (dim == Dim(1, static_cast<SymbolId>(s))) return s;
    refuse(to_string(dim, graph.symbols()) + " is no symbol of the graph");
  }

  void check_sizes(std::span<const std::int64_t> symbols) const {
    for (std::size_t v = 0; v < most_elements.size(); ++v)
      if (const ValueInfo& value = graph.values()[v];
          checked_elements(graph, value, symbols) > most_elements[v])
        refuse(value.name + " " + sizes_text(value.shape.dims(symbols)) +
               " is larger than at the symbols' upper bounds, which memory is laid out for");
  }

  /// The inputs that a step brings, by their names, once all that it reads is known to be there.
  std::vector<ValueId> check_inputs(std::span<const std::int64_t> symbols, bool shapes,
                                    std::span<const InputData> inputs) const {
    std::vector<ValueId> ids;
    for (const InputData& input : inputs) {
      const ValueId id = ids.emplace_back(find(input.name, ValueKind::kInput, "input"));
      const ValueInfo& value = graph.value(id);
      const std::size_t expected = exec::value_bytes(value, symbols);
      if (input.bytes.size() != expected)
        refuse("input '" + value.name + "' " + sizes_text(value.shape.dims(symbols)) + " of " +
               std::string(info(value.dtype).name) + " has " + std::to_string(expected) +
               " bytes in this step, got " + std::to_string(input.bytes.size()));
    }
    for (std::size_t v = 0; v < given.size(); ++v) {
      const ValueInfo& value = graph.values()[v];
      const auto id = static_cast<ValueId>(v);
      if (value.kind != ValueKind::kInput || std::find(ids.begin(), ids.end(), id) != ids.end()) continue;
      if (!given[v]) refuse("input '" + value.name + "' was never given");
      if (shapes && value.shape.dims(symbols) != value.shape.dims(last_symbols))
        refuse("input '" + value.name + "' has another shape than in the step before, and was not given");
    }
    return ids;
  }

  void compile() {
    for (std::size_t v = 0; v < given.size(); ++v)
      if (const ValueInfo& value = graph.values()[v];
          value.kind == ValueKind::kWeight && !given[v] &&
          !exec::devices_reading(graph, device_of, static_cast<ValueId>(v)).empty())
        refuse("weight '" + value.name + "' was not set");
    plan.emplace(devices.set().pointers(), exec::PlacedGraph{graph, device_of, bindings},
                 CompileOptions{.allowed = params.allowed, .n_threads = params.n_threads});
  }

  Graph graph;
  Devices devices;
  PlanParams params;
  std::vector<int> device_of;  // By node.
  exec::Splits splits;
  std::vector<Bindings> bindings;           // By device.
  std::vector<std::int64_t> most_elements;  // By value: at the symbols' upper bounds.
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  std::vector<bool> given;                  // By value: weights that were set, inputs that a step brought.
  std::vector<exec::Rebinding> rebindings;  // For the next step ...
  std::vector<DeviceTensor*> replaced;      // ... and what is not needed after it.
  std::vector<std::int64_t> last_symbols;
  bool has_result = false;         // Of the last step.
  std::optional<exec::Plan> plan;  // Last: devices and tensors outlive it.
};

Plan::Plan(Graph graph, Devices devices, PlanParams params) {
  check_graph(graph, params);
  impl_ = std::make_unique<Impl>(std::move(graph), std::move(devices), std::move(params));
}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

void Plan::set_weight(std::string_view name, std::span<const std::byte> bytes) {
  impl_->set_weight(name, bytes);
}
void Plan::run(std::span<const SymbolValue> symbols, std::span<const InputData> inputs) {
  impl_->run(symbols, inputs);
}
void Plan::run(std::initializer_list<SymbolValue> symbols, std::initializer_list<InputData> inputs) {
  impl_->run(std::span(symbols.begin(), symbols.size()), std::span(inputs.begin(), inputs.size()));
}

std::vector<std::int64_t> Plan::shape(std::string_view output) const {
  const ValueId id = impl_->find(output, ValueKind::kResult, "output");
  if (!impl_->has_result) refuse("there is no step whose outputs could be read");
  return impl_->graph.value(id).shape.dims(impl_->last_symbols);
}

void Plan::read(std::string_view output, std::span<std::byte> to) const {
  const ValueId id = impl_->find(output, ValueKind::kResult, "output");
  if (!impl_->has_result) refuse("there is no step whose outputs could be read");
  const std::size_t bytes = exec::value_bytes(impl_->graph.value(id), impl_->last_symbols);
  if (to.size() != bytes)
    refuse("output '" + std::string(output) + "' " + sizes_text(shape(output)) + " has " +
           std::to_string(bytes) + " bytes, there is room for " + std::to_string(to.size()));
  std::memcpy(to.data(), impl_->plan->output(id).host().data(), bytes);
}

const Graph& Plan::graph() const { return impl_->graph; }

const PlanCounters& Plan::counters() const {
  static const PlanCounters kNone;
  return impl_->plan ? impl_->plan->counters() : kNone;
}

std::vector<std::string> Plan::placement() const {
  std::vector<std::string> result;
  for (const int device : impl_->device_of)
    result.push_back(impl_->devices.set().devices[index(device)]->info().name);
  return result;
}

std::string Plan::explain() const {
  const Graph& graph = impl_->graph;
  const auto name_of = [&](int device) { return impl_->devices.set().devices[index(device)]->info().name; };
  const std::vector<std::int64_t> bounds = graph.bounds();
  std::string text;
  for (std::size_t s = 0; s < impl_->splits.splits.size(); ++s) {
    const exec::Split& split = impl_->splits.splits[s];
    for (const exec::Copy& copy : impl_->splits.copies)
      if (copy.before == static_cast<int>(s))
        text += "copy " + graph.value(copy.value).name + " to " + name_of(copy.to) + ", up to " +
                std::to_string(exec::value_bytes(graph.value(copy.value), bounds)) + " bytes\n";
    text += "split " + std::to_string(s) + " on " + name_of(split.device) + ": " +
            std::to_string(split.graph.nodes().size()) + " nodes\n";
    for (const Node& node : split.graph.nodes()) {
      text += "  " + split.graph.value(node.output).name + " = " + std::string(name(node.op)) + "(";
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        text += (i > 0 ? ", " : "") + split.graph.value(node.inputs[i]).name;
      text += ") " + to_string(split.graph.value(node.output).shape, graph.symbols()) + "\n";
    }
  }
  const auto needs = exec::memory_needs(graph, impl_->devices.set().pointers(), impl_->device_of,
                                        impl_->devices.set().host, impl_->params.n_threads);
  for (std::size_t d = 0; d < needs.size(); ++d)
    text += "memory on " + name_of(static_cast<int>(d)) + ": weights " + std::to_string(needs[d].weights) +
            ", states " + std::to_string(needs[d].states) + ", inputs, outputs and copies " +
            std::to_string(needs[d].step_tensors) + ", temporaries " + std::to_string(needs[d].workspace) +
            " bytes\n";
  return text;
}

}  // namespace weft
