#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/host_tensor.h"
#include "base/to_size.h"
#include "exec/cheapest.h"
#include "exec/pins.h"
#include "exec/placement.h"
#include "plan/plan_impl.h"
#include "weft/backend/registry.h"
#include "weft/backend/workspace.h"
#include "weft/error.h"

namespace weft {
namespace {

constexpr int kMaxThreads = 1024;

std::vector<int> place_nodes(const Graph& graph, const exec::DeviceSet& set, std::span<const Pin> pins) {
  std::vector<int> fixed(graph.nodes().size(), -1);
  for (const Pin& pin : pins) {
    const int device = set.find(pin.device);
    const std::vector<bool> pinned = exec::pinned_nodes(graph, pin, *set.devices[index(device)]);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      if (pinned[n]) fixed[n] = device;
  }
  return exec::place_cheapest(graph, set, fixed);
}

/// "[2, 3] of f32"
std::string type_text(const ValueInfo& value) {
  return sizes_text(value.shape.dims({})) + " of " + std::string(info(value.dtype).name);
}

/// A symbol that no step gave a value.
constexpr std::int64_t kNotGiven = std::numeric_limits<std::int64_t>::min();

std::vector<std::int64_t> first_symbols(const Graph& graph) {
  std::vector<std::int64_t> symbols;
  for (const Symbol& symbol : graph.symbols())
    symbols.push_back(symbol.min == symbol.max ? symbol.min : kNotGiven);
  return symbols;
}

}  // namespace

std::vector<DeviceInfo> Devices::infos() const {
  std::vector<DeviceInfo> result;
  for (const auto& device : set_->devices) result.push_back(device->info());
  return result;
}

Devices open_devices(const Registry& registry, std::span<const std::string> names) {
  PlacementParams params;
  params.devices.assign(names.begin(), names.end());
  if (names.empty())
    for (const DeviceInfo& gpu : registry.gpus()) params.devices.push_back(gpu.name);
  return Devices(std::make_shared<const exec::DeviceSet>(exec::open_devices(registry, params, {})));
}
Devices open_devices(const Registry& registry, std::initializer_list<std::string> names) {
  return open_devices(registry, std::span(names.begin(), names.size()));
}
Devices open_devices(std::span<const std::string> names) { return open_devices(*load_backends(), names); }
Devices open_devices(std::initializer_list<std::string> names) {
  return open_devices(std::span(names.begin(), names.size()));
}
Devices open_devices(std::string_view name) { return open_devices({std::string(name)}); }

std::shared_ptr<Workspaces> make_workspaces() { return std::make_shared<Workspaces>(); }

std::vector<Bindings> Plan::Impl::Placed::bindings() const {
  std::vector<Bindings> result;
  for (const auto& of_device : tensors) {
    Bindings& bindings = result.emplace_back();
    for (const auto& tensor : of_device) bindings.push_back(tensor.get());
  }
  return result;
}

Plan::Impl::Impl(Graph graph, Devices d, PlanParams p) : devices(std::move(d)), params(std::move(p)) {
  if (params.n_threads < 0 || params.n_threads > kMaxThreads)
    refuse("n_threads is " + std::to_string(params.n_threads) + ", it must be from 0 to " +
           std::to_string(kMaxThreads));
  if (params.watch != nullptr || !params.watched.empty()) watched.emplace(params.watched);
  now = place(std::move(graph));
  last_symbols = first_symbols(now.graph);
  for (std::size_t v = 0; v < now.graph.values().size(); ++v) {
    const ValueInfo& value = now.graph.values()[v];
    const auto id = static_cast<ValueId>(v);
    if (value.kind != ValueKind::kState) continue;
    const int on = home(now, id);
    now.tensors[index(on)][v] =
        devices.set().devices[index(on)]->create_state(value.dtype, value.shape.dims({}));
  }
}

Plan::Impl::Placed Plan::Impl::place(Graph graph) const {
  check_graph(graph);
  Placed placed;
  if (watched) {
    for (const Node& node : graph.nodes()) {
      const ValueInfo& value = graph.value(node.output);
      if (state_behind(graph, node.output) != kNoValue || !watched->found_in(value.name)) continue;
      placed.watched.push_back(node.output);
    }
    for (const ValueId value : placed.watched)
      if (!graph.is_output(value)) graph.add_output(value);
  }
  placed.graph = std::move(graph);
  placed.indices = index_uses(placed.graph);
  placed.attentions = attention_uses(placed.graph);
  placed.plain_weights = plain_weights(placed.graph);
  for (std::size_t n = 0; n < placed.graph.nodes().size(); ++n)
    if (get_op<ops::Slice>(placed.graph.nodes()[n]) != nullptr)
      placed.slices.push_back(static_cast<NodeId>(n));
  placed.device_of = place_nodes(placed.graph, devices.set(), params.pins);
  placed.readers = exec::devices_reading(placed.graph, placed.device_of);
  placed.splits = exec::split(placed.graph, placed.device_of, devices.set().is_async());
  const std::size_t n_values = placed.graph.values().size();
  placed.tensors.resize(devices.set().devices.size());
  for (auto& of_device : placed.tensors) of_device.resize(n_values);
  placed.given.resize(n_values);
  placed.sources.resize(n_values);
  const std::vector<std::int64_t> bounds = placed.graph.bounds();
  for (std::size_t v = 0; v < n_values; ++v) {
    const ValueInfo& value = placed.graph.values()[v];
    const auto id = static_cast<ValueId>(v);
    for (int i = 0; i < value.shape.rank(); ++i)
      if (value.shape[i].is_expression()) {
        placed.most_sizes.emplace_back(id, value.shape.dims(bounds));
        break;
      }
    if (value.kind == ValueKind::kInput) placed.inputs.push_back(id);
    if (value.kind != ValueKind::kInput && !placed.graph.is_output(id)) continue;
    const auto on = index(home(placed, id));
    placed.tensors[on][v] = create_host_tensor(*devices.set().devices[on], value, value.shape.dims(bounds));
  }
  return placed;
}

/// The device that holds a value, also if no split computes or reads it.
int Plan::Impl::home(const Placed& placed, ValueId id) const {
  const ValueInfo& value = placed.graph.value(id);
  if (value.kind == ValueKind::kResult) return placed.device_of[index(value.producer)];
  if (value.kind == ValueKind::kState)
    if (const std::vector<int>& readers = placed.readers[index(id)]; !readers.empty()) return readers.front();
  return placed.splits.home[index(id)] >= 0 ? placed.splits.home[index(id)] : devices.set().host;
}

const std::string& Plan::Impl::device_name(int device) const {
  return devices.set().devices[index(device)]->info().name;
}

ValueId Plan::Impl::find(std::string_view name, ValueKind kind, const char* what) const {
  const Graph& graph = now.graph;
  const auto is_one = [&](ValueId id) {
    return graph.value(id).kind == kind && (kind != ValueKind::kResult || graph.is_output(id));
  };
  const ValueId id = graph.find(name);
  if (id != kNoValue && is_one(id)) return id;
  std::string known;
  for (std::size_t v = 0; v < graph.values().size(); ++v)
    if (is_one(static_cast<ValueId>(v))) known += (known.empty() ? "" : ", ") + graph.values()[v].name;
  throw Error(ErrorCode::kNotFound, "there is no " + std::string(what) + " '" + std::string(name) + "'" +
                                        (known.empty() ? "" : "; there are " + known));
}

void Plan::Impl::set_weights(const WeightFile& file) {
  std::vector<std::pair<ValueId, const WeightFile::Tensor*>> found;
  for (std::size_t v = 0; v < now.graph.values().size(); ++v) {
    const ValueInfo& value = now.graph.values()[v];
    if (value.kind != ValueKind::kWeight) continue;
    const WeightFile::Tensor* const tensor = file.find(value.name);
    if (tensor == nullptr) continue;
    if (tensor->dtype != value.dtype || tensor->shape != value.shape.dims({}))
      refuse("weight '" + value.name + "' is " + type_text(value) + " in the graph, and " +
             sizes_text(tensor->shape) + " of " + std::string(info(tensor->dtype).name) + " in the file");
    found.emplace_back(static_cast<ValueId>(v), tensor);
  }
  const auto read = [file](std::span<const std::byte> part, std::span<std::byte> to) { file.read(part, to); };
  std::vector<MadeWeight> made;
  for (const auto& [id, tensor] : found)
    made.push_back(make_weight(
        id, {.bytes = tensor->bytes, .reader = read, .name = {}, .file = file.file_of(tensor->bytes)}));
  files.push_back(file);
  take(std::move(made));
}

void Plan::Impl::set_weight(ValueId id, const WeightSource& source) {
  std::vector<MadeWeight> made;
  made.push_back(make_weight(id, source));
  take(std::move(made));
}

Plan::Impl::MadeWeight Plan::Impl::make_weight(ValueId id, const WeightSource& source) const {
  const ValueInfo& value = now.graph.value(id);
  const std::size_t expected = to_size(value.shape.rows({})) * row_bytes(value.dtype, value.shape.columns());
  if (source.bytes.size() != expected)
    refuse("weight '" + value.name + "' " + type_text(value) + " has " + std::to_string(expected) +
           " bytes, got " + std::to_string(source.bytes.size()));
  if (plan && !other_graph && !params.allowed.tensors)
    refuse("weight '" + value.name + "' is set again, and the plan does not allow changed tensors");
  MadeWeight made{.id = id, .source = source, .tensors = {}};
  for (const int on : now.readers[index(id)]) made.tensors.emplace_back(on, make_tensor(now, id, on, source));
  return made;
}

std::shared_ptr<DeviceTensor> Plan::Impl::make_tensor(const Placed& placed, ValueId weight, int device,
                                                      const WeightSource& source) const {
  const ValueInfo& value = placed.graph.value(weight);
  std::vector<std::int64_t> dims = value.shape.dims({});
  // A number without axes is a vector of one for devices.
  if (placed.plain_weights[index(weight)] || dims.empty()) dims = {value.shape.elements({})};
  return devices.set().devices[index(device)]->create_weight(value.dtype, dims, source);
}

/// All or none.
void Plan::Impl::take(std::vector<MadeWeight> made) {
  std::size_t n_tensors = 0;
  for (const MadeWeight& weight : made) n_tensors += weight.tensors.size();
  rebindings.reserve(rebindings.size() + n_tensors);
  replaced.reserve(replaced.size() + n_tensors);
  for (MadeWeight& weight : made) {
    now.given[index(weight.id)] = true;
    now.sources[index(weight.id)] = std::move(weight.source);
    for (auto& [device, tensor] : weight.tensors) {
      if (plan && !other_graph) rebindings.push_back({weight.id, tensor.get(), device});
      // The one before is used until the next step is bound.
      auto before = std::exchange(now.tensors[index(device)][index(weight.id)], std::move(tensor));
      if (plan) replaced.push_back(std::move(before));
    }
  }
}

void Plan::Impl::keep_weight(Placed& next, ValueId id) const {
  const ValueInfo& value = next.graph.value(id);
  const ValueId old = now.graph.find(value.name);
  if (old == kNoValue || now.graph.value(old).kind != ValueKind::kWeight) return;
  if (const ValueInfo& before = now.graph.value(old);
      before.dtype != value.dtype || !(before.shape == value.shape)) {
    next.changed.emplace_back(id, type_text(before));
    return;
  }
  if (!now.given[index(old)]) return;
  next.given[index(id)] = true;
  const WeightSource& source = next.sources[index(id)] = now.sources[index(old)];
  const bool same_layout = now.plain_weights[index(old)] == next.plain_weights[index(id)];
  for (const int on : next.readers[index(id)]) {
    const std::shared_ptr<DeviceTensor>& there = now.tensors[index(on)][index(old)];
    next.tensors[index(on)][index(id)] =
        same_layout && there != nullptr ? there : make_tensor(next, id, on, source);
  }
}

void Plan::Impl::keep_state(Placed& next, ValueId id) const {
  const ValueInfo& value = next.graph.value(id);
  const ValueId old = now.graph.find(value.name);
  const int on = home(next, id);
  std::shared_ptr<DeviceTensor>& tensor = next.tensors[index(on)][index(id)];
  if (old == kNoValue || now.graph.value(old).kind != ValueKind::kState ||
      now.graph.value(old).dtype != value.dtype || !(now.graph.value(old).shape == value.shape)) {
    tensor = devices.set().devices[index(on)]->create_state(value.dtype, value.shape.dims({}));
    return;
  }
  if (const int before = home(now, old); before != on)
    throw Error(ErrorCode::kUnsupported, "state '" + value.name + "' would move from " + device_name(before) +
                                             " to " + device_name(on) + "; pin it to its present device");
  tensor = now.tensors[index(on)][index(old)];
}

void Plan::Impl::set_graph(Graph graph) {
  if (!params.allowed.topology) refuse("the plan does not allow another graph (PlanParams::allowed)");
  finish();
  Placed next = place(std::move(graph));
  for (std::size_t v = 0; v < next.graph.values().size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    const ValueKind kind = next.graph.value(id).kind;
    if (kind == ValueKind::kWeight) keep_weight(next, id);
    if (kind == ValueKind::kState) keep_state(next, id);
  }
  std::vector<std::int64_t> symbols = first_symbols(next.graph);
  for (std::size_t s = 0; s < symbols.size(); ++s)
    for (std::size_t t = 0; t < last_symbols.size(); ++t)
      if (next.graph.symbols()[s].name == now.graph.symbols()[t].name) symbols[s] = last_symbols[t];
  // The compiled plan keeps using the previous graph's tensors until the next step is compiled.
  for (auto& of_device : now.tensors)
    std::move(of_device.begin(), of_device.end(), std::back_inserter(replaced));
  now = std::move(next);
  last_symbols = std::move(symbols);
  rebindings.clear();
  other_graph = plan.has_value();
  has_result = false;
}

Plan::Impl::Brought Plan::Impl::check(std::span<const SymbolValue> symbol_values,
                                      std::span<const InputData> inputs) const {
  Brought brought{.symbols = last_symbols, .shapes = false, .ids = {}};
  for (std::size_t i = 0; i < symbol_values.size(); ++i) {
    const std::size_t symbol = symbol_of(symbol_values[i]);
    for (std::size_t j = 0; j < i; ++j)
      if (symbol_of(symbol_values[j]) == symbol)
        refuse("symbol '" + now.graph.symbols()[symbol].name + "' is given twice");
    brought.symbols[symbol] = symbol_values[i].value;
  }
  for (std::size_t s = 0; s < brought.symbols.size(); ++s) {
    const Symbol& symbol = now.graph.symbols()[s];
    const std::int64_t value = brought.symbols[s];
    if (value == kNotGiven)
      refuse("symbol '" + symbol.name +
             "' has no value; the first step must give one for each symbol, as in run({{\"" + symbol.name +
             "\", 8}}, ...)");
    if (value < symbol.min || value > symbol.max)
      refuse(symbol.name + " = " + std::to_string(value) + " is outside [" + std::to_string(symbol.min) +
             ", " + std::to_string(symbol.max) + "]");
  }
  const bool first = !plan || other_graph;
  brought.shapes = !first && brought.symbols != last_symbols;
  if (brought.shapes && !params.allowed.shapes)
    refuse("a symbol changed, but the plan does not allow changed shapes (PlanParams::allowed)");
  if (first || brought.shapes) check_sizes(brought.symbols);
  brought.ids = check_inputs(brought.symbols, brought.shapes, inputs);
  check_indices(brought, inputs);
  check_tables(brought, inputs);
  if (first) check_weights();
  return brought;
}

std::size_t Plan::Impl::symbol_of(const SymbolValue& value) const {
  const auto symbols = now.graph.symbols();
  for (std::size_t s = 0; s < symbols.size(); ++s)
    if (value.name.empty() ? value.symbol == Dim(1, static_cast<SymbolId>(s)) : value.name == symbols[s].name)
      return s;
  refuse((value.name.empty() ? to_string(value.symbol, symbols) : "'" + std::string(value.name) + "'") +
         " is not a symbol of the graph");
}

void Plan::Impl::check_sizes(std::span<const std::int64_t> symbols) const {
  for (const auto& [id, most] : now.most_sizes) {
    const ValueInfo& value = now.graph.value(id);
    checked_elements(now.graph, value, symbols);
    for (int i = 0; i < value.shape.rank(); ++i)
      if (value.shape[i].value(symbols) > most[index(i)])
        refuse(value.name + " " + sizes_text(value.shape.dims(symbols)) +
               " is larger than at the symbols' upper bounds, " + sizes_text(most) +
               ", for which memory was reserved");
  }
  for (const NodeId slice : now.slices) check_slice(now.graph, now.graph.node(slice), symbols);
}

/// The inputs that a step brings, by their names, once all that it reads is known to be there.
std::vector<ValueId> Plan::Impl::check_inputs(std::span<const std::int64_t> symbols, bool shapes,
                                              std::span<const InputData> inputs) const {
  std::vector<ValueId> ids;
  for (const InputData& input : inputs) {
    const ValueId id = find(input.name, ValueKind::kInput, "input");
    if (std::find(ids.begin(), ids.end(), id) != ids.end())
      refuse("input '" + std::string(input.name) + "' is given twice");
    ids.push_back(id);
    const ValueInfo& value = now.graph.value(id);
    if (input.dtype && *input.dtype != value.dtype)
      refuse("input '" + value.name + "' is " + std::string(info(value.dtype).name) + ", but got " +
             std::string(info(*input.dtype).name));
    const std::size_t expected = value_bytes(value, symbols);
    if (input.bytes.size() != expected)
      refuse("input '" + value.name + "' " + sizes_text(value.shape.dims(symbols)) + " of " +
             std::string(info(value.dtype).name) + " has " + std::to_string(expected) +
             " bytes in this step, got " + std::to_string(input.bytes.size()));
  }
  for (const ValueId id : now.inputs) {
    if (std::find(ids.begin(), ids.end(), id) != ids.end()) continue;
    const ValueInfo& value = now.graph.value(id);
    if (!now.given[index(id)])
      refuse("input '" + value.name +
             "' has no data; the first step, and a step after a failed one, must give all inputs");
    if (shapes && value.shape.dims(symbols) != value.shape.dims(last_symbols))
      refuse("input '" + value.name + "' changed its shape, but the step gives no data for it");
  }
  return ids;
}

std::span<const std::byte> Plan::Impl::data_of(ValueId input, const Brought& brought,
                                               std::span<const InputData> inputs, bool always) const {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (brought.ids[i] == input) return inputs[i].bytes;
  if (!always) return {};
  return now.tensors[index(home(now, input))][index(input)]->host().first(
      value_bytes(now.graph.value(input), brought.symbols));
}

/// Kernels do not check indices.
void Plan::Impl::check_indices(const Brought& brought, std::span<const InputData> inputs) const {
  for (const IndexUse& use : now.indices) {
    const ValueInfo& value = now.graph.value(use.input);
    // An unchanged input may have more rows than the present step.
    const std::span<const std::byte> bytes = data_of(use.input, brought, inputs, brought.shapes);
    const std::int64_t end = use.end.value(brought.symbols);
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::int32_t)) {
      std::int32_t number = 0;
      std::memcpy(&number, bytes.data() + i, sizeof(number));
      if (number >= use.least && number < end) continue;
      const Node& node = now.graph.node(use.node);
      refuse("input '" + value.name + "' has " + std::to_string(number) + " at " +
             std::to_string(i / sizeof(number)) + ", and " + now.graph.value(node.output).name + " = " +
             std::string(to_string(node.op)) + " takes " + std::to_string(use.least) + " to " +
             std::to_string(end - 1));
    }
  }
}

void Plan::Impl::check_tables(const Brought& brought, std::span<const InputData> inputs) const {
  for (const AttentionUse& use : now.attentions) {
    const bool changed = std::ranges::any_of(
        use.tables(), [&](ValueId table) { return std::ranges::count(brought.ids, table) > 0; });
    if (changed)
      check_attention(now.graph, use, [&](ValueId table) { return data_of(table, brought, inputs, true); });
  }
}

void Plan::Impl::check_weights() const {
  for (std::size_t v = 0; v < now.given.size(); ++v) {
    const ValueInfo& value = now.graph.values()[v];
    if (value.kind != ValueKind::kWeight || now.given[v] || now.readers[v].empty()) continue;
    for (const auto& [id, before] : now.changed)
      if (index(id) == v)
        refuse("weight '" + value.name + "' is " + type_text(value) + ", and was " + before +
               " in the graph before; set it again");
    refuse("weight '" + value.name + "' was not set");
  }
}

void Plan::Impl::write(const Brought& brought, std::span<const InputData> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueId id = brought.ids[i];
    const std::span<std::byte> to = now.tensors[index(home(now, id))][index(id)]->host();
    std::copy(inputs[i].bytes.begin(), inputs[i].bytes.end(), to.begin());
    now.given[index(id)] = true;
  }
}

/// Which step they are of is not known any more.
void Plan::Impl::forget_inputs() {
  for (const ValueId id : now.inputs) now.given[index(id)] = false;
  has_result = false;
  started = false;
  held.clear();
}

void Plan::Impl::run(std::span<const SymbolValue> symbol_values, std::span<const InputData> inputs) {
  const Brought brought = check(symbol_values, inputs);
  finish();
  if (!plan)
    plan.emplace(
        devices.set().pointers(), exec::PlacedGraph{now.graph, now.device_of, now.bindings()},
        CompileOptions{
            .allowed = params.allowed, .n_threads = params.n_threads, .workspaces = params.workspaces},
        kStepsAtOnce);
  has_result = false;
  write(brought, inputs);
  exec::Step step;
  exec::PlacedGraph placed;
  step.symbols = brought.symbols;
  step.actual = {.shapes = brought.shapes, .tensors = !rebindings.empty(), .topology = other_graph};
  step.rebindings = rebindings;
  if (other_graph) {
    placed = {now.graph, now.device_of, now.bindings()};
    step.graph = &placed;
  }
  try {
    plan->run(step);
  } catch (...) {
    forget_inputs();
    throw;
  }
  has_result = true;
  other_graph = false;
  rebindings.clear();
  replaced.clear();
  last_symbols = read_symbols = brought.symbols;
  show_watched();
}

void Plan::Impl::start(std::span<const SymbolValue> symbol_values, std::span<const InputData> inputs) {
  const bool had_result = has_result || started;
  if (plan && plan->pipelined() && !other_graph && rebindings.empty() && !watched) {
    const Brought brought = check(symbol_values, inputs);
    write(brought, inputs);
    exec::Step step;
    step.symbols = brought.symbols;
    step.actual = {.shapes = brought.shapes};
    try {
      plan->start(step);
    } catch (...) {
      forget_inputs();
      throw;
    }
    has_result = had_result;
    read_symbols = std::exchange(last_symbols, brought.symbols);
    held.clear();
    started = true;
    return;
  }
  std::vector<std::vector<std::byte>> outputs;
  std::vector<std::int64_t> symbols;
  if (had_result) {
    check(symbol_values, inputs);  // A refused step leaves the outputs unchanged.
    finish();
    symbols = read_symbols;
    outputs.resize(now.graph.values().size());
    for (const ValueId id : now.graph.outputs()) {
      const std::span<std::byte> bytes = plan->output(id).host();
      outputs[index(id)].assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(value_bytes(
                                                                   now.graph.value(id), symbols)));
    }
  }
  run(symbol_values, inputs);
  held = std::move(outputs);
  read_symbols = std::move(symbols);
  has_result = had_result;
  started = true;
}

void Plan::Impl::finish() {
  if (!started) return;
  try {
    plan->finish();
  } catch (...) {
    forget_inputs();
    throw;
  }
  started = false;
  held.clear();
  has_result = true;
  read_symbols = last_symbols;
}

void Plan::Impl::show_watched() const {
  if (params.watch == nullptr) return;
  for (const ValueId id : now.watched) {
    const ValueInfo& value = now.graph.value(id);
    const std::vector<std::int64_t> dims = value.shape.dims(read_symbols);
    params.watch({.name = value.name,
                  .dtype = value.dtype,
                  .shape = dims,
                  .bytes = plan->output(id).host().first(value_bytes(value, read_symbols))});
  }
}

Plan::Plan(Graph graph, Devices devices, PlanParams params)
    : impl_(std::make_unique<Impl>(std::move(graph), std::move(devices), std::move(params))) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

void Plan::set_weight(std::string_view name, std::span<const std::byte> bytes) {
  impl_->set_weight(impl_->find(name, ValueKind::kWeight, "weight"),
                    {.bytes = bytes, .reader = {}, .name = {}});
}
void Plan::set_weights(const WeightFile& file) { impl_->set_weights(file); }
void Plan::set_graph(Graph graph) { impl_->set_graph(std::move(graph)); }

void Plan::run(std::span<const SymbolValue> symbols, std::span<const InputData> inputs) {
  impl_->run(symbols, inputs);
}
void Plan::run(std::initializer_list<SymbolValue> symbols, std::initializer_list<InputData> inputs) {
  impl_->run(std::span(symbols.begin(), symbols.size()), std::span(inputs.begin(), inputs.size()));
}
void Plan::start(std::span<const SymbolValue> symbols, std::span<const InputData> inputs) {
  impl_->start(symbols, inputs);
}
void Plan::start(std::initializer_list<SymbolValue> symbols, std::initializer_list<InputData> inputs) {
  impl_->start(std::span(symbols.begin(), symbols.size()), std::span(inputs.begin(), inputs.size()));
}
void Plan::finish() { impl_->finish(); }

std::vector<std::int64_t> Plan::shape(std::string_view output) const {
  const ValueId id = impl_->find(output, ValueKind::kResult, "output");
  if (!impl_->has_result) refuse("there is no output to read: no step has completed");
  return impl_->now.graph.value(id).shape.dims(impl_->read_symbols);
}

void Plan::check_type(std::string_view output, DType dtype) const {
  const ValueInfo& value = impl_->now.graph.value(impl_->find(output, ValueKind::kResult, "output"));
  if (value.dtype != dtype)
    refuse("output '" + value.name + "' is " + std::string(info(value.dtype).name) + ", but is read as " +
           std::string(info(dtype).name));
}

void Plan::check_element(std::string_view weight, std::span<const DType> types) const {
  const ValueInfo& value = impl_->now.graph.value(impl_->find(weight, ValueKind::kWeight, "weight"));
  if (types.empty() || std::ranges::count(types, value.dtype) > 0) return;
  std::string given;
  for (const DType type : types) given += (given.empty() ? "" : " or ") + std::string(info(type).name);
  refuse("weight '" + value.name + "' is " + type_text(value) + ", but got elements of " + given);
}

void Plan::read(std::string_view output, std::span<std::byte> to) const {
  const ValueId id = impl_->find(output, ValueKind::kResult, "output");
  if (!impl_->has_result) refuse("there is no output to read: no step has completed");
  const std::size_t bytes = value_bytes(impl_->now.graph.value(id), impl_->read_symbols);
  if (to.size() != bytes)
    refuse("output '" + std::string(output) + "' " + sizes_text(shape(output)) + " has " +
           std::to_string(bytes) + " bytes, there is room for " + std::to_string(to.size()));
  const std::byte* const from =
      impl_->held.empty() ? impl_->plan->output(id).host().data() : impl_->held[index(id)].data();
  std::copy_n(from, bytes, to.data());
}

const Graph& Plan::graph() const { return impl_->now.graph; }

const PlanCounters& Plan::counters() const {
  static const PlanCounters kNone;
  return impl_->plan ? impl_->plan->counters() : kNone;
}

std::vector<std::string> Plan::placement() const {
  std::vector<std::string> result;
  for (const int device : impl_->now.device_of) result.push_back(impl_->device_name(device));
  return result;
}

}  // namespace weft
