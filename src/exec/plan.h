#pragma once
// A plan: a graph compiled once for its device, with the changes that later steps may bring. A step says what
// did change; what did not is not looked at again.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/device.h"
#include "graph/graph.h"

namespace weft::exec {

/// An external tensor that takes another's place: same type, same size.
struct Rebinding {
  ValueId value = kNoValue;
  DeviceTensor* tensor = nullptr;
};

/// What a step is. Inputs were written to their tensors before.
struct Step {
  std::span<const std::int64_t> symbols;  ///< The value of each symbol of the graph.
  Changes actual;  ///< What differs from the step before. A first step declares nothing.
  std::span<const Rebinding> rebindings;  ///< With actual.tensors.
  const Graph* graph = nullptr;  ///< With actual.topology: the new graph, with `bindings` for all its values.
  const Bindings* bindings = nullptr;
};

struct PlanCounters {
  std::int64_t compiled = 0;
  std::int64_t steps = 0;
  std::int64_t unchanged = 0;  ///< Steps by what changed; a step with several counts as the largest of them.
  std::int64_t shapes = 0;
  std::int64_t tensors = 0;
  std::int64_t topology = 0;
};

/// Used by one thread at a time, except cancel(). The device and all bound tensors must outlive the plan.
class Plan {
 public:
  /// Every input, weight, state and output of the graph must be bound. Throws Error.
  Plan(Device& device, Graph graph, Bindings bindings, const CompileOptions& options);

  /// Runs a step. Throws Error kInvalidArgument that names the tensor where the step goes past a bound or
  /// changes what it did not declare or what the plan does not allow; nothing was run then and the plan is as
  /// it was.
  void run(const Step& step);
  void cancel() noexcept { compiled_->cancel(); }
  /// See DevicePlan::set_profile.
  void set_profile(Profile* profile);

  const Graph& graph() const { return graph_; }
  const PlanCounters& counters() const { return counters_; }
  const DevicePlan& compiled() const { return *compiled_; }

 private:
  void check(const Step& step) const;
  void check_bindings(const Graph& graph, const Bindings& bindings) const;
  void compile();

  Device& device_;
  Graph graph_;
  Bindings bindings_;
  CompileOptions options_;
  std::unique_ptr<DevicePlan> compiled_;
  std::vector<std::int64_t> symbols_;  // Of the last step; empty before the first.
  PlanCounters counters_;
  Profile* profile_ = nullptr;
};

}  // namespace weft::exec
