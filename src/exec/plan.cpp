#include "exec/plan.h"

#include <algorithm>
#include <utility>

#include "weft/error.h"

namespace weft::exec {
namespace {

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

}  // namespace

Plan::Plan(Device& device, Graph graph, Bindings bindings, const CompileOptions& options)
    : device_(device), graph_(std::move(graph)), bindings_(std::move(bindings)), options_(options) {
  check_bindings(graph_, bindings_);
  compile();
}

void Plan::compile() {
  for (const Node& node : graph_.nodes())
    if (!device_.supports(graph_, node))
      throw Error(ErrorCode::kUnsupported, device_.info().name + " cannot compute " +
                                               std::string(name(node.op)) + " (" +
                                               graph_.value(node.output).name + ")");
  compiled_ = device_.compile(graph_, bindings_, options_);
  ++counters_.compiled;
}

void Plan::check_bindings(const Graph& graph, const Bindings& bindings) const {
  if (bindings.size() != graph.values().size())
    refuse("it binds another number of tensors than the graph has");
  for (std::size_t v = 0; v < bindings.size(); ++v)
    if (bindings[v] == nullptr && needs_binding(graph, static_cast<ValueId>(v)))
      refuse("tensor " + graph.values()[v].name + " is not bound");
}

void Plan::check(const Step& step) const {
  const Graph& graph = step.actual.topology && step.graph != nullptr ? *step.graph : graph_;
  if (step.actual.topology && !options_.allowed.topology) refuse("the plan does not allow another graph");
  if (step.actual.topology != (step.graph != nullptr))
    refuse("another graph and its declaration go together");
  if (step.actual.topology) {
    if (step.bindings == nullptr) refuse("another graph needs bindings");
    check_bindings(graph, *step.bindings);
  }

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
    const DeviceTensor* old = bindings_[static_cast<std::size_t>(rebinding.value)];
    if (!options_.allowed.tensors)
      refuse("tensor " + value.name + " is bound anew, and the plan does not allow changed tensors");
    if (!needs_binding(graph, rebinding.value) || rebinding.tensor == nullptr)
      refuse("tensor " + value.name + " cannot be bound");
    if (rebinding.tensor->dtype() != old->dtype() || rebinding.tensor->bytes() != old->bytes())
      refuse("tensor " + value.name + " is bound to one of another type or size");
  }
}

void Plan::run(const Step& step) {
  check(step);
  if (step.actual.topology) {
    // Compile first: if that fails, the plan still stands for the old graph.
    auto compiled = device_.compile(*step.graph, *step.bindings, options_);
    compiled_ = std::move(compiled);
    compiled_->set_profile(profile_);
    graph_ = *step.graph;
    bindings_ = *step.bindings;
    ++counters_.compiled;
  }
  for (const Rebinding& rebinding : step.rebindings)
    bindings_[static_cast<std::size_t>(rebinding.value)] = rebinding.tensor;
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
  compiled_->submit(symbols_, bindings_, step.actual);
  compiled_->wait();
}

void Plan::set_profile(Profile* profile) {
  profile_ = profile;
  compiled_->set_profile(profile);
}

}  // namespace weft::exec
