#include "exec/plan.h"

#include <algorithm>
#include <utility>

#include "backend/host_tensor.h"
#include "base/check.h"
#include "base/pool.h"
#include "base/to_size.h"
#include "graph/refuse.h"
#include "weft/error.h"

namespace weft::exec {
namespace {

/// More phases than a device makes of a node.
constexpr int kPhasesOfNode = 2;

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorCode::kInvalidArgument, "step refused: " + reason);
}

/// The first tensor whose shape has the symbol, to name it in errors.
std::string tensor_with(const Graph& graph, std::size_t symbol) {
  for (const ValueInfo& value : graph.values())
    for (int i = 0; i < value.shape.rank(); ++i)
      if (value.shape[i].uses(static_cast<SymbolId>(symbol)))
        return "tensor " + value.name + " " + to_string(value.shape, graph.symbols());
  return "no tensor";
}

bool needs_binding(const Graph& graph, ValueId value) {
  return graph.value(value).kind != ValueKind::kResult || graph.is_output(value);
}

/// By symbol: whether it says how many cells are moved. Those who cancel a step rely on the moves.
std::vector<bool> symbols_of_moves(const Graph& graph) {
  std::vector<bool> of_moves(graph.symbols().size());
  for (const Node& node : graph.nodes()) {
    if (get_op<ops::MoveCells>(node) == nullptr) continue;
    const Dim& n = graph.value(named_inputs<ops::MoveCells>(node).from).shape[0];
    for (std::size_t symbol = 0; symbol < of_moves.size(); ++symbol)
      if (n.uses(static_cast<SymbolId>(symbol))) of_moves[symbol] = true;
  }
  return of_moves;
}

std::vector<std::vector<bool>> direct_copies(std::span<Device* const> devices) {
  std::vector<std::vector<bool>> result;
  for (const Device* const from : devices)
    for (auto& row = result.emplace_back(); const Device* const to : devices)
      row.push_back(to->can_receive_from(*from));
  return result;
}

}  // namespace

Plan::Plan(std::vector<Device*> devices, PlacedGraph graph, const CompileOptions& options, int most_at_once)
    : devices_(std::move(devices)),
      direct_(direct_copies(devices_)),
      options_(options),
      most_at_once_(most_at_once) {
  now_ = compile(std::move(graph));
  ++counters_.compiled;
}

/// Adds a part that is compiled, or will have the plan of a part that runs now: `adopt_plans`.
void Plan::add_part(Compiled& result, Part part, const CompileOptions& options) {
  const auto is_taken = [&](std::size_t p) {
    return std::any_of(result.parts.begin(), result.parts.end(),
                       [&](const Part& other) { return other.same_as == static_cast<int>(p); });
  };
  // Its tensors may be others now, and the values of symbols.
  for (std::size_t p = 0; p < now_.parts.size() && options.allowed.tensors && options.allowed.shapes; ++p)
    if (const Part& before = now_.parts[p]; before.device == part.device && before.graph == part.graph &&
                                            before.not_for_host == part.not_for_host && !is_taken(p)) {
      part.same_as = static_cast<int>(p);
      result.parts.push_back(std::move(part));
      return;
    }
  Device& on = *devices_[to_size(part.device)];
  for (const Node& node : part.graph.nodes())
    if (!on.supports(part.graph, node))
      throw Error(ErrorCode::kUnsupported, line_text(node.source.where) + on.info().name +
                                               " cannot compute " + std::string(to_string(node.op)) + " (" +
                                               part.graph.value(node.output).name + ")");
  CompileOptions own = options;
  if (on.info().is_async) own.pool = nullptr;  // It takes no turns with the host.
  own.not_for_host = part.not_for_host;
  part.plan = on.compile(part.graph, part.bindings.front(), own);
  if (part.plan == nullptr) throw Error(ErrorCode::kDevice, on.info().name + " gives no plan for a graph");
  ++counters_.splits_compiled;
  result.parts.push_back(std::move(part));
}

void Plan::adopt_plans(Compiled& next) {
  for (Part& part : next.parts) {
    if (part.same_as < 0) continue;
    part.plan = std::move(now_.parts[to_size(std::exchange(part.same_as, -1))].plan);
    part.rebound = true;
  }
}

Plan::Compiled Plan::compile(PlacedGraph placed) {
  Compiled result;
  result.placed = std::move(placed);
  const Graph& graph = result.placed.graph;
  std::vector<int>& device_of = result.placed.device_of;
  if (result.placed.bindings.size() != devices_.size())
    refuse("it binds tensors for another number of devices");
  for (const Bindings& bindings : result.placed.bindings)
    if (bindings.size() != graph.values().size())
      refuse("it binds a different number of tensors than the graph has");
  device_of.resize(graph.nodes().size(), 0);
  for (const int device : device_of)
    if (device < 0 || device >= static_cast<int>(devices_.size()))
      refuse("a node is placed on a device that is not there");
  result.carrier_bytes.resize(devices_.size());
  result.of_moves = symbols_of_moves(graph);

  if (devices_.size() == 1) {
    compile_whole(result);
  } else {
    compile_splits(result);
  }
  return result;
}

void Plan::compile_whole(Compiled& result) {
  const Graph& graph = result.placed.graph;
  Part part;
  part.graph = graph;
  part.bindings = {result.placed.bindings.front()};
  const Bindings& bindings = part.bindings.front();
  std::vector<bool> used(bindings.size());
  for (const Node& node : graph.nodes()) {
    used[to_size(node.output)] = true;
    for (const ValueId input : node.inputs) used[to_size(input)] = true;
  }
  for (std::size_t v = 0; v < bindings.size(); ++v) {
    if (bindings[v] == nullptr && used[v] && needs_binding(graph, static_cast<ValueId>(v)))
      refuse("tensor " + graph.values()[v].name + " is not bound");
    part.whole_value.push_back(static_cast<ValueId>(v));
  }
  add_part(result, std::move(part), options_);
}

/// Splits of host devices run by turns, splits of other devices in their order.
CompileOptions Plan::shared_by_splits(std::size_t n_nodes) {
  CompileOptions options = options_;
  if (options.workspaces == nullptr) {
    if (workspaces_ == nullptr) workspaces_ = std::make_shared<Workspaces>();
    options.workspaces = workspaces_;
  }
  if (options.pool != nullptr) return options;
  if (pool_ == nullptr || pool_nodes_ < n_nodes) {
    pool_nodes_ = std::max<std::size_t>(n_nodes, 1);
    const int n_threads = options.n_threads > 0 ? options.n_threads : base::default_threads();
    pool_ = std::make_shared<base::Pool>(n_threads, kPhasesOfNode * static_cast<int>(pool_nodes_),
                                         base::default_helpers(n_threads));
  }
  options.pool = pool_;
  return options;
}

void Plan::compile_splits(Compiled& result) {
  const Graph& graph = result.placed.graph;
  const std::vector<bool> beside = is_async(devices_);
  const Splits splits = split(graph, result.placed.device_of, beside);
  // A value has one tensor on each device that makes or reads it; what the caller does not bind is made here.
  const auto tensor_on = [&](int device, ValueId whole) {
    DeviceTensor*& tensor = result.placed.bindings[to_size(device)][to_size(whole)];
    if (tensor != nullptr) return tensor;
    const ValueInfo& value = graph.value(whole);
    if (needs_binding(graph, whole) && (value.kind == ValueKind::kWeight || value.kind == ValueKind::kState ||
                                        splits.home[to_size(whole)] == device))
      refuse("tensor " + value.name + " is not bound on " + devices_[to_size(device)]->info().name);
    return tensor = make_carrier(result, device, whole);
  };
  // Values that the host writes are on the host.
  const auto is_direct = [&](const Copy& copy) {
    return graph.value(copy.value).producer != kNoNode && copies_directly(copy.from, copy.to);
  };
  std::vector<bool> for_host(graph.values().size());  // By value: whether it is read there or copied over it.
  for (const ValueId output : graph.outputs()) for_host[to_size(output)] = true;
  for (const Copy& of : splits.copies)
    if (!is_direct(of)) for_host[to_size(of.value)] = true;
  std::vector<std::size_t> made_by(graph.values().size());  // By value that crosses: its part.
  auto copy = splits.copies.begin();                        // They are in the order of the splits.
  const CompileOptions options = shared_by_splits(graph.nodes().size());
  for (const Split& split : splits.splits) {
    Part part;
    part.device = split.device;
    part.graph = split.graph;
    part.after = split.after;
    part.whole_value = split.whole_value;
    Bindings& bindings = part.bindings.emplace_back(part.whole_value.size(), nullptr);
    for (std::size_t v = 0; v < bindings.size(); ++v)
      if (needs_binding(split.graph, static_cast<ValueId>(v)))
        bindings[v] = tensor_on(split.device, part.whole_value[v]);
    for (; copy != splits.copies.end() && copy->before == static_cast<int>(result.parts.size()); ++copy) {
      if (!is_direct(*copy)) {
        part.copies.push_back(*copy);
        continue;
      }
      const Direct direct{*copy, result.n_direct++};
      part.receives.push_back(direct);
      result.parts[made_by[to_size(copy->value)]].sends.push_back(direct);
    }
    for (const ValueId output : split.graph.outputs()) {
      const auto whole = to_size(part.whole_value[to_size(output)]);
      made_by[whole] = result.parts.size();
      if (!for_host[whole]) part.not_for_host.push_back(output);
    }
    add_part(result, std::move(part), options);
  }
  if (const int n = steps_at_once(splits, beside, most_at_once_); n > 1 && options_.allowed.tensors)
    make_ahead(result, step_tensors(graph, splits), n);
}

DeviceTensor* Plan::make_carrier(Compiled& result, int device, ValueId value) const {
  const Graph& graph = result.placed.graph;
  const ValueInfo& info = graph.value(value);
  Device& on = *devices_[to_size(device)];
  result.carriers.push_back(create_host_tensor(on, info, info.shape.dims(graph.bounds())));
  result.carrier_bytes[to_size(device)] += result.carriers.back()->bytes();
  return result.carriers.back().get();
}

void Plan::make_ahead(Compiled& result, std::span<const StepTensor> tensors, int n_at_once) const {
  const Graph& graph = result.placed.graph;
  result.flights = std::vector<Flight>(to_size(n_at_once));
  result.ahead.assign(to_size(n_at_once), result.placed.bindings);
  for (const StepTensor& tensor : tensors) {
    if (tensor.from_host) result.inputs.emplace_back(tensor.device, tensor.value);
    // The first set has what the caller gave where it can.
    for (std::size_t i = tensor.from_host ? 0 : 1; i < result.ahead.size(); ++i)
      result.ahead[i][to_size(tensor.device)][to_size(tensor.value)] =
          make_carrier(result, tensor.device, tensor.value);
  }

  std::vector<std::vector<int>> users(graph.values().size());  // Of states.
  for (std::size_t p = 0; p < result.parts.size(); ++p)
    for (const ValueId value : result.parts[p].whole_value)
      if (graph.value(value).kind == ValueKind::kState) users[to_size(value)].push_back(static_cast<int>(p));
  for (std::size_t p = 0; p < result.parts.size(); ++p) {
    Part& part = result.parts[p];
    for (const std::vector<Bindings>& set : result.ahead) {
      Bindings bindings = part.bindings.front();
      for (std::size_t v = 0; v < bindings.size(); ++v)
        if (bindings[v] != nullptr) bindings[v] = set[to_size(part.device)][to_size(part.whole_value[v])];
      part.bindings.push_back(std::move(bindings));
    }
    part.after_before = {static_cast<int>(p)};
    for (const ValueId value : part.whole_value) {
      const auto& with = users[to_size(value)];
      part.after_before.insert(part.after_before.end(), with.begin(), with.end());
    }
    std::sort(part.after_before.begin(), part.after_before.end());
    part.after_before.erase(std::unique(part.after_before.begin(), part.after_before.end()),
                            part.after_before.end());
  }
}

void Plan::check(const Step& step) const {
  const Graph& graph = step.actual.topology && step.graph != nullptr ? step.graph->graph : now_.placed.graph;
  if (step.actual.topology && !options_.allowed.topology) refuse("the plan does not allow another graph");
  if (step.actual.topology != (step.graph != nullptr))
    refuse("another graph and its declaration go together");

  const auto symbols = graph.symbols();
  if (step.symbols.size() != symbols.size()) refuse("it gives another number of symbols than the graph has");
  const bool first = symbols_.empty() || step.actual.topology;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::int64_t value = step.symbols[i];
    if (value < symbols[i].min || value > symbols[i].max)
      refuse(symbols[i].name + " = " + std::to_string(value) + " is outside [" +
             std::to_string(symbols[i].min) + ", " + std::to_string(symbols[i].max) + "], the bounds of " +
             tensor_with(graph, i));
    if (first || value == symbols_[i] || (step.actual.shapes && options_.allowed.shapes)) continue;
    const std::string change = symbols[i].name + " went from " + std::to_string(symbols_[i]) + " to " +
                               std::to_string(value) + " in " + tensor_with(graph, i);
    refuse(change + (step.actual.shapes ? ", and the plan does not allow changed shapes"
                                        : ", and the step does not declare changed shapes"));
  }

  if (!step.rebindings.empty() && !step.actual.tensors)
    refuse("tensor " + graph.value(step.rebindings[0].value).name +
           " is bound anew, and the step does not declare changed tensors");
  for (const Rebinding& rebinding : step.rebindings) {
    const ValueInfo& value = graph.value(rebinding.value);
    if (rebinding.device < 0 || rebinding.device >= static_cast<int>(devices_.size()))
      refuse("tensor " + value.name + " is bound anew on a device that is not there");
    const DeviceTensor* old = now_.placed.bindings[to_size(rebinding.device)][to_size(rebinding.value)];
    if (!options_.allowed.tensors)
      refuse("tensor " + value.name + " is bound anew, and the plan does not allow changed tensors");
    if (!needs_binding(graph, rebinding.value) || rebinding.tensor == nullptr || old == nullptr)
      refuse("tensor " + value.name + " cannot be bound");
    // A device may find a smaller form for some weights of a shape than for others.
    if (rebinding.tensor->dtype() != old->dtype() ||
        (value.kind != ValueKind::kWeight && rebinding.tensor->bytes() != old->bytes()))
      refuse("tensor " + value.name + " is bound to one of another type or size");
  }
}

void Plan::rebind(const Rebinding& rebinding) {
  const auto device = to_size(rebinding.device);
  const auto value = to_size(rebinding.value);
  DeviceTensor* const old = std::exchange(now_.placed.bindings[device][value], rebinding.tensor);
  // Inputs of steps ahead stay copies.
  for (std::vector<Bindings>& set : now_.ahead)
    if (set[device][value] == old) set[device][value] = rebinding.tensor;
  for (Part& part : now_.parts) {
    if (part.device != rebinding.device) continue;
    for (Bindings& bindings : part.bindings)
      for (std::size_t v = 0; v < part.whole_value.size(); ++v) {
        if (part.whole_value[v] != rebinding.value || bindings[v] == nullptr || bindings[v] != old) continue;
        bindings[v] = rebinding.tensor;
        part.rebound = true;
      }
  }
}

DeviceTensor& Plan::output(ValueId value) const {
  const NodeId producer = now_.placed.graph.value(value).producer;
  WEFT_CHECK(producer != kNoNode);
  const int device = now_.placed.device_of[to_size(producer)];
  return *set(done_set_)[to_size(device)][to_size(value)];
}

double Plan::kernel_seconds() const {
  double sum = 0.0;
  for (const Part& part : now_.parts) sum += part.plan->kernel_seconds();
  return sum;
}

std::size_t Plan::own_bytes(int device) const {
  std::size_t sum = now_.carrier_bytes[to_size(device)];
  for (const Part& part : now_.parts)
    if (part.device == device) sum += part.plan->memory().own;
  return sum;
}

std::size_t Plan::shared_bytes(int device) const {
  std::size_t most = 0;
  for (const Part& part : now_.parts)
    if (part.device == device) most = std::max(most, part.plan->memory().shared);
  return most;
}

void Plan::set_profile(Profile* profile) {
  profile_ = profile;
  for (Part& part : now_.parts) part.plan->set_profile(profile);
}

}  // namespace weft::exec
