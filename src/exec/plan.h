#pragma once
// A plan: a graph compiled once for its devices, with the changes that later steps may bring. A step says
// what did change; what did not is not looked at again.
//
// On one device a plan is that device's plan. On several it is a chain of splits (splits.h): each is
// submitted as soon as the splits that it reads from are done, values are copied once to each device that
// reads them, and what works beside the host does so while the host goes on. All memory is reserved when the
// plan is compiled.
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/device.h"
#include "exec/splits.h"
#include "graph/graph.h"

namespace weft::exec {

/// An external tensor that takes another's place: same type, same size, same device.
struct Rebinding {
  ValueId value = kNoValue;
  DeviceTensor* tensor = nullptr;
  int device = 0;
};

/// A graph, where its nodes run, and its external tensors.
struct PlacedGraph {
  Graph graph;
  std::vector<int> device_of;      ///< By node. Empty: all on the first device.
  std::vector<Bindings> bindings;  ///< By device: weights and states where nodes use them, inputs and outputs
                                   ///< at home (Splits::home).
};

/// What a step is. Inputs were written to their tensors before.
struct Step {
  std::span<const std::int64_t> symbols;  ///< The value of each symbol of the graph.
  Changes actual;  ///< What differs from the step before. A first step declares nothing.
  std::span<const Rebinding> rebindings;  ///< With actual.tensors.
  const PlacedGraph* graph = nullptr;     ///< With actual.topology: the new graph.
};

struct PlanCounters {
  std::int64_t compiled = 0;
  std::int64_t steps = 0;
  std::int64_t unchanged = 0;  ///< Steps by what changed; a step with several counts as the largest of them.
  std::int64_t shapes = 0;
  std::int64_t tensors = 0;
  std::int64_t topology = 0;
  std::int64_t copies = 0;        ///< Values copied between devices ...
  std::int64_t copied_bytes = 0;  ///< ... and their bytes.
};

/// Used by one thread at a time, except cancel(). Devices and all bound tensors must outlive the plan.
class Plan {
 public:
  /// Every input, weight, state and output of the graph must be bound. Throws Error.
  Plan(std::vector<Device*> devices, PlacedGraph graph, const CompileOptions& options);
  Plan(Device& device, Graph graph, Bindings bindings, const CompileOptions& options)
      : Plan({&device}, {std::move(graph), {}, {std::move(bindings)}}, options) {}

  /// Runs a step. Throws Error kInvalidArgument that names the tensor where the step goes past a bound or
  /// changes what it did not declare or what the plan does not allow; nothing was run then and the plan is as
  /// it was. Throws what a device throws that fails; no device works on the step any more then.
  void run(const Step& step);
  /// Makes a running step return early, as DevicePlan::cancel says.
  void cancel() noexcept;
  /// See DevicePlan::set_profile.
  void set_profile(Profile* profile);

  const Graph& graph() const { return now_.placed.graph; }
  const PlanCounters& counters() const { return counters_; }
  int n_splits() const { return static_cast<int>(now_.parts.size()); }
  double kernel_seconds() const;
  /// Temporaries and copies of values on a device.
  std::size_t workspace_bytes(int device) const;

 private:
  /// A split and how it is run.
  struct Part {
    int device = 0;
    std::unique_ptr<DevicePlan> plan;
    Bindings bindings;                 // By the split's value ...
    std::vector<ValueId> whole_value;  // ... and what it is in the whole graph.
    std::vector<int> after;
    std::vector<Copy> copies;  // Before it runs.
    bool running = false;
    bool rebound = false;
  };
  struct Compiled {
    PlacedGraph placed;  // Bindings with the tensors that carry values from split to split.
    std::vector<Part> parts;
    std::vector<std::unique_ptr<DeviceTensor>> carriers;
    std::vector<std::size_t> carrier_bytes;  // By device.
    std::vector<bool> of_moves;              // By symbol: how many cells are moved ...
    std::vector<std::int64_t> cut_symbols;   // ... in a step that does nothing else.
  };

  Compiled compile(PlacedGraph placed) const;
  void compile_whole(Compiled& result) const;
  void compile_splits(Compiled& result, Splits splits) const;
  std::unique_ptr<DevicePlan> compile_on(int device, const Graph& graph, const Bindings& bindings,
                                         const CompileOptions& options) const;
  void check(const Step& step) const;
  void rebind(const Rebinding& rebinding);
  void run_parts(const Changes& actual);
  void finish(Part& part);

  const std::vector<Device*> devices_;
  const CompileOptions options_;
  Compiled now_;
  std::vector<std::int64_t> symbols_;  // Of the last step; empty before the first.
  bool cut_short_ = false;             // Some parts of the last step ran with other symbols, or not at all.
  std::atomic<bool> cancelled_{false};
  PlanCounters counters_;
  Profile* profile_ = nullptr;
};

}  // namespace weft::exec
