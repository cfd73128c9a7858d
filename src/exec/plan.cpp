#include "exec/plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/pool.h"
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
      if (value.shape[i].symbol == static_cast<SymbolId>(symbol))
        return "tensor " + value.name + " " + to_string(value.shape, graph.symbols());
  return "no tensor";
}

bool needs_binding(const Graph& graph, ValueId value) {
  const auto outputs = graph.outputs();
  return graph.value(value).kind != ValueKind::kResult ||
         std::find(outputs.begin(), outputs.end(), value) != outputs.end();
}

/// By symbol: whether it says how many cells are moved. Those who cancel a step rely on the moves.
std::vector<bool> symbols_of_moves(const Graph& graph) {
  std::vector<bool> of_moves(graph.symbols().size());
  for (const Node& node : graph.nodes()) {
    if (get_op<ops::MoveCells>(node) == nullptr) continue;
    const Dim& n = graph.value(node.inputs[1]).shape[0];
    if (!n.is_constant()) of_moves[static_cast<std::size_t>(n.symbol)] = true;
  }
  return of_moves;
}

std::vector<std::int64_t> shape_at_bounds(const Graph& graph, const ValueInfo& value) {
  std::vector<std::int64_t> shape;
  for (int i = 0; i < value.shape.rank(); ++i) shape.push_back(value.shape[i].value(graph.bounds()));
  return shape;
}

}  // namespace

Plan::Plan(std::vector<Device*> devices, PlacedGraph graph, const CompileOptions& options)
    : devices_(std::move(devices)), options_(options), now_(compile(std::move(graph))) {
  ++counters_.compiled;
}

std::unique_ptr<DevicePlan> Plan::compile_on(int device, const Graph& graph, const Bindings& bindings,
                                             const CompileOptions& options) const {
  Device& on = *devices_[static_cast<std::size_t>(device)];
  for (const Node& node : graph.nodes())
    if (!on.supports(graph, node))
      throw Error(ErrorCode::kUnsupported, on.info().name + " cannot compute " + std::string(name(node.op)) +
                                               " (" + graph.value(node.output).name + ")");
  CompileOptions own = options;
  if (on.info().beside_host) own.pool = nullptr;  // It takes no turns with the host.
  return on.compile(graph, bindings, own);
}

Plan::Compiled Plan::compile(PlacedGraph placed) const {
  Compiled result;
  result.placed = std::move(placed);
  const Graph& graph = result.placed.graph;
  std::vector<int>& device_of = result.placed.device_of;
  if (result.placed.bindings.size() != devices_.size())
    refuse("it binds tensors for another number of devices");
  for (const Bindings& bindings : result.placed.bindings)
    if (bindings.size() != graph.values().size())
      refuse("it binds another number of tensors than the graph has");
  device_of.resize(graph.nodes().size(), 0);
  for (const int device : device_of)
    if (device < 0 || device >= static_cast<int>(devices_.size()))
      refuse("a node is placed on a device that is not there");
  result.carrier_bytes.resize(devices_.size());
  result.of_moves = symbols_of_moves(graph);
  result.cut_symbols.resize(graph.symbols().size());

  if (devices_.size() == 1) {
    compile_whole(result);
  } else {
    std::vector<bool> beside_host;
    for (const Device* device : devices_) beside_host.push_back(device->info().beside_host);
    compile_splits(result, split(graph, device_of, beside_host));
  }
  return result;
}

void Plan::compile_whole(Compiled& result) const {
  const Graph& graph = result.placed.graph;
  Part part;
  part.bindings = result.placed.bindings.front();
  for (std::size_t v = 0; v < part.bindings.size(); ++v) {
    if (part.bindings[v] == nullptr && needs_binding(graph, static_cast<ValueId>(v)))
      refuse("tensor " + graph.values()[v].name + " is not bound");
    part.whole_value.push_back(static_cast<ValueId>(v));
  }
  part.plan = compile_on(part.device, graph, part.bindings, options_);
  result.parts.push_back(std::move(part));
}

void Plan::compile_splits(Compiled& result, Splits splits) const {
  const Graph& graph = result.placed.graph;
  // A value has one tensor on each device that makes or reads it; what the caller does not bind is made here.
  const auto tensor_on = [&](int device, ValueId whole) {
    DeviceTensor*& tensor =
        result.placed.bindings[static_cast<std::size_t>(device)][static_cast<std::size_t>(whole)];
    if (tensor != nullptr) return tensor;
    const ValueInfo& value = graph.value(whole);
    if (needs_binding(graph, whole) && (value.kind == ValueKind::kWeight || value.kind == ValueKind::kState ||
                                        splits.home[static_cast<std::size_t>(whole)] == device))
      refuse("tensor " + value.name + " is not bound on " +
             devices_[static_cast<std::size_t>(device)]->info().name);
    result.carriers.push_back(devices_[static_cast<std::size_t>(device)]->create_host_tensor(
        value.dtype, shape_at_bounds(graph, value)));
    result.carrier_bytes[static_cast<std::size_t>(device)] += result.carriers.back()->bytes();
    return tensor = result.carriers.back().get();
  };
  // Splits of the host's devices run by turns.
  CompileOptions options = options_;
  if (options.pool == nullptr)
    options.pool = std::make_shared<base::Pool>(
        options.n_threads > 0 ? options.n_threads : base::default_threads(),
        kPhasesOfNode * static_cast<int>(std::max<std::size_t>(graph.nodes().size(), 1)));
  for (Split& split : splits.splits) {
    Part part;
    part.device = split.device;
    part.after = std::move(split.after);
    part.whole_value = std::move(split.whole_value);
    part.bindings.resize(part.whole_value.size(), nullptr);
    for (std::size_t v = 0; v < part.bindings.size(); ++v)
      if (needs_binding(split.graph, static_cast<ValueId>(v)))
        part.bindings[v] = tensor_on(split.device, part.whole_value[v]);
    for (const Copy& copy : splits.copies)
      if (copy.before == static_cast<int>(result.parts.size())) part.copies.push_back(copy);
    part.plan = compile_on(split.device, split.graph, part.bindings, options);
    result.parts.push_back(std::move(part));
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
    if (first || value == symbols_[i]) continue;
    const std::string change = symbols[i].name + " went from " + std::to_string(symbols_[i]) + " to " +
                               std::to_string(value) + " in " + tensor_with(graph, i);
    if (!step.actual.shapes) refuse(change + ", and the step does not declare changed shapes");
    if (!options_.allowed.shapes) refuse(change + ", and the plan does not allow changed shapes");
  }

  if (!step.rebindings.empty() && !step.actual.tensors)
    refuse("tensor " + graph.value(step.rebindings[0].value).name +
           " is bound anew, and the step does not declare changed tensors");
  for (const Rebinding& rebinding : step.rebindings) {
    const ValueInfo& value = graph.value(rebinding.value);
    if (rebinding.device < 0 || rebinding.device >= static_cast<int>(devices_.size()))
      refuse("tensor " + value.name + " is bound anew on a device that is not there");
    const DeviceTensor* old =
        now_.placed
            .bindings[static_cast<std::size_t>(rebinding.device)][static_cast<std::size_t>(rebinding.value)];
    if (!options_.allowed.tensors)
      refuse("tensor " + value.name + " is bound anew, and the plan does not allow changed tensors");
    if (!needs_binding(graph, rebinding.value) || rebinding.tensor == nullptr || old == nullptr)
      refuse("tensor " + value.name + " cannot be bound");
    if (rebinding.tensor->dtype() != old->dtype() || rebinding.tensor->bytes() != old->bytes())
      refuse("tensor " + value.name + " is bound to one of another type or size");
  }
}

void Plan::rebind(const Rebinding& rebinding) {
  now_.placed
      .bindings[static_cast<std::size_t>(rebinding.device)][static_cast<std::size_t>(rebinding.value)] =
      rebinding.tensor;
  for (Part& part : now_.parts) {
    if (part.device != rebinding.device) continue;
    for (std::size_t v = 0; v < part.whole_value.size(); ++v) {
      if (part.whole_value[v] != rebinding.value || part.bindings[v] == nullptr) continue;
      part.bindings[v] = rebinding.tensor;
      part.rebound = true;
    }
  }
}

void Plan::run(const Step& step) {
  check(step);
  cancelled_.store(false, std::memory_order_relaxed);
  if (step.actual.topology) {
    // Compile first: if that fails, the plan still stands for the old graph.
    now_ = compile(*step.graph);
    set_profile(profile_);
    ++counters_.compiled;
  }
  for (const Rebinding& rebinding : step.rebindings) rebind(rebinding);
  symbols_.assign(step.symbols.begin(), step.symbols.end());

  ++counters_.steps;
  if (step.actual.topology) {
    ++counters_.topology;
  } else if (step.actual.tensors) {
    ++counters_.tensors;
  } else if (step.actual.shapes) {
    ++counters_.shapes;
  } else {
    ++counters_.unchanged;
  }
  run_parts(step.actual);
}

void Plan::run_parts(const Changes& actual) {
  const bool catch_up = std::exchange(cut_short_, false);
  std::span<const std::int64_t> symbols = symbols_;
  try {
    for (Part& part : now_.parts) {
      for (const int before : part.after) finish(now_.parts[static_cast<std::size_t>(before)]);
      // A device that was not at it yet when the step was cancelled moves cells and does no more.
      if (now_.parts.size() > 1 && options_.allowed.shapes && cancelled_.load(std::memory_order_relaxed)) {
        for (std::size_t i = 0; i < symbols_.size(); ++i)
          now_.cut_symbols[i] = now_.of_moves[i] ? symbols_[i] : now_.placed.graph.symbols()[i].min;
        symbols = now_.cut_symbols;
        cut_short_ = true;
      }
      for (const Copy& copy : part.copies) {
        const auto value = static_cast<std::size_t>(copy.value);
        const std::size_t n = value_bytes(now_.placed.graph.value(copy.value), symbols);
        const auto from = now_.placed.bindings[static_cast<std::size_t>(copy.from)][value]->host();
        const auto to = now_.placed.bindings[static_cast<std::size_t>(copy.to)][value]->host();
        if (n > 0) std::memcpy(to.data(), from.data(), n);
        ++counters_.copies;
        counters_.copied_bytes += static_cast<std::int64_t>(n);
      }
      Changes changes = actual;
      changes.shapes = actual.shapes || (options_.allowed.shapes && (catch_up || cut_short_));
      changes.tensors = std::exchange(part.rebound, false);
      part.running = true;
      part.plan->submit(symbols, part.bindings, changes);
    }
    for (Part& part : now_.parts) finish(part);
  } catch (...) {
    cut_short_ = true;
    symbols_.clear();  // Whatever the next step's are, they are new to those that did not get so far.
    // Devices beside the host must not write to this step's values any more once the caller goes on.
    for (Part& part : now_.parts) {
      try {
        finish(part);
      } catch (...) {  // The first error is the one to tell.
      }
    }
    throw;
  }
}

void Plan::finish(Part& part) {
  if (std::exchange(part.running, false)) part.plan->wait();
}

void Plan::cancel() noexcept {
  cancelled_.store(true, std::memory_order_relaxed);
  for (Part& part : now_.parts) part.plan->cancel();
}

double Plan::kernel_seconds() const {
  double sum = 0.0;
  for (const Part& part : now_.parts) sum += part.plan->kernel_seconds();
  return sum;
}

std::size_t Plan::workspace_bytes(int device) const {
  std::size_t sum = now_.carrier_bytes[static_cast<std::size_t>(device)];
  for (const Part& part : now_.parts)
    if (part.device == device) sum += part.plan->workspace_bytes();
  return sum;
}

void Plan::set_profile(Profile* profile) {
  profile_ = profile;
  for (Part& part : now_.parts) part.plan->set_profile(profile);
}

}  // namespace weft::exec
