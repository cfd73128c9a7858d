#pragma once
// A plan: a graph compiled once for its devices, with the changes that later steps may bring. A step says
// what did change; what did not is not looked at again.
//
// On one device a plan is that device's plan. On several it is a chain of splits (splits.h). A split is
// submitted as soon as the splits that it reads from are done. If its device keeps steps in order, it
// suffices that they will be done by then. Values are copied once to each device that reads them. Devices
// that are asynchronous to the host run while the host continues. All memory is reserved when the plan is
// compiled. The splits of a device share the memory of their temporaries. Other plans that run by turns may
// share it too (CompileOptions::workspaces).
//
// Where some devices work asynchronously to the host, steps can overlap. The host computes the first splits
// of the next steps while devices compute the later splits of earlier ones. Enough steps are in flight to
// give all devices work (steps_at_once). Each has its own inputs, outputs and values between splits, and
// memory is reserved for all of them. There is only one copy of each state. So a split waits for itself and
// for all splits that use the same state in earlier steps. So steps end in the order in which they were
// started. Splits of a device that keeps steps in order (Device::in_order) follow each other in its queue
// without the host. Two such devices that can send values to each other (Device::send_to), as processes do,
// need no host either. The value is sent directly after the split that makes it. Between other devices the
// host waits and copies. For one GPU to wait for another's semaphore needs an extension that not all drivers
// have, and would save one submission.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/to_size.h"
#include "exec/splits.h"
#include "weft/backend/device.h"
#include "weft/graph.h"
#include "weft/graph/changes.h"

namespace weft::base {
class Pool;
}

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

/// Bytes of an input that a step uses, where its shape does not tell.
struct InputPart {
  ValueId value = kNoValue;
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

/// The description of a step. Inputs were written to their tensors before.
struct Step {
  std::span<const std::int64_t> symbols;  ///< The value of each symbol of the graph.
  Changes actual;  ///< What differs from the step before. A first step declares nothing.
  std::span<const Rebinding> rebindings;  ///< With actual.tensors.
  const PlacedGraph* graph = nullptr;     ///< With actual.topology: the new graph.
  /// In the order of their values. Inputs that are here are copied in these parts only; what else a device
  /// finds in them is of earlier steps.
  std::span<const InputPart> parts;
};

/// Used by one thread at a time. Devices and all bound tensors must outlive the plan.
class Plan {
 public:
  /// Every input, weight, state and output of the graph must be bound. No more than `most_at_once` steps
  /// overlap. Throws Error.
  Plan(std::vector<Device*> devices, PlacedGraph graph, const CompileOptions& options,
       int most_at_once = kMostAtOnce);
  Plan(Device& device, Graph graph, Bindings bindings, const CompileOptions& options)
      : Plan({&device}, {std::move(graph), {}, {std::move(bindings)}}, options) {}
  /// Waits for steps in flight: devices write to tensors until then.
  ~Plan() { abandon(); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Runs a step. Throws Error kInvalidArgument that names the tensor if the step exceeds a bound or makes
  /// undeclared or forbidden changes. Nothing was run then, and the plan is unchanged. Throws the errors of a
  /// device that fails (DevicePlan::submit). No device works on the step any more then, and another step can
  /// be tried. The outputs of the failed step, and the cells that it moved, are undefined.
  void run(const Step& step);

  /// The number of steps that can overlap; 1 if they cannot. run() and start() do not mix: run() requires
  /// that no step is in flight.
  int n_at_once() const { return static_cast<int>(now_.flights.size()); }
  bool pipelined() const { return n_at_once() > 1; }
  /// Whether inputs are copied at all, so that Step::parts saves something.
  bool copies_inputs() const { return n_splits() > 1; }
  /// Starts a step that differs from the one before in shapes at most; only where pipelined(). Returns when
  /// fewer than n_at_once() steps are in flight, completed splits are handed on, and the host would have to
  /// wait for a device. So in a chain each device has work then. The caller may then write the inputs of the
  /// next step. True where a step is done by that: the oldest one, if n_at_once() - 1 were in flight.
  /// `output` has its results until the next start or finish. Throws like run; where a device fails, no step
  /// is in flight any more.
  bool start(const Step& step);
  /// Returns when the oldest step in flight is done; false where there is none. Throws what a device throws
  /// that fails.
  bool finish_oldest();
  /// Returns when no step is in flight any more. Throws what a device throws that fails.
  void finish();
  /// The tensor of an output of the last step that is done.
  DeviceTensor& output(ValueId value) const;

  /// See DevicePlan::set_profile.
  void set_profile(Profile* profile);

  const Graph& graph() const { return now_.placed.graph; }
  const PlanCounters& counters() const { return counters_; }
  int n_splits() const { return static_cast<int>(now_.parts.size()); }
  double kernel_seconds() const;
  // The memory of the plan on a device, without the tensors that it was given:
  /// copies of values, tables, temporaries that are not shared,
  std::size_t own_bytes(int device) const;
  /// and temporaries in a workspace (CompileOptions::workspaces, or one for all splits).
  std::size_t shared_bytes(int device) const;

 private:
  /// A copy without the host, and its place among all of these.
  struct Direct {
    Copy copy;
    std::size_t slot = 0;
  };
  /// A step on its way through the parts.
  struct Flight {
    std::vector<Device::Transfer> transfers;  // By Direct::slot; from nowhere: not sent, or received.
    std::vector<std::int64_t> symbols;
    std::vector<std::int64_t> cut_symbols;  // Of a step that moves cells and does nothing else.
    std::vector<InputPart> parts;
    bool is_cut = false;
    Changes changes;       // Since the step before; parts add their own.
    std::size_t set = 0;   // Of tensors.
    std::size_t next = 0;  // The first part that was not submitted yet.
  };
  /// A split and how it is run.
  struct Part {
    int device = 0;
    Graph graph;
    std::unique_ptr<DevicePlan> plan;
    std::vector<Bindings> bindings;    // By set and the split's value ...
    std::vector<ValueId> whole_value;  // ... and the value in the whole graph.
    std::vector<int> after;
    // Parts of the step before: this part, and the parts that use one of its states. They waited for earlier
    // steps'.
    std::vector<int> after_before;
    std::vector<Copy> copies;             // Before it runs, over the host.
    std::vector<Direct> sends, receives;  // Behind it, and before it.
    std::vector<ValueId> not_for_host;    // CompileOptions::not_for_host.
    int same_as = -1;  // While another graph is compiled: the part of the one before whose plan it takes.
    const Flight* running_for = nullptr;
    std::uint64_t submitted = 0;  // When, counted in submitted parts.
    std::size_t bound_set = 0;
    bool rebound = false;
    bool was_cut = false;  // In the step that it ran last.
  };
  struct Compiled {
    PlacedGraph placed;  // Bindings with the tensors that carry values from split to split.
    std::vector<Part> parts;
    std::size_t n_direct = 0;
    std::vector<std::unique_ptr<DeviceTensor>> carriers;
    std::vector<std::size_t> carrier_bytes;  // By device.
    std::vector<bool> of_moves;              // By symbol: whether it says how many cells are moved.
    // For steps that overlap: a set of bindings for each, by device. All have their own inputs, into which
    // inputs that the caller binds are copied. All but the first also have their own copies of all other
    // tensors of a step.
    std::vector<std::vector<Bindings>> ahead;
    std::vector<std::pair<int, ValueId>> inputs;  // Which these are, with their homes.
    // A ring, with room for all steps that can overlap.
    std::vector<Flight> flights = std::vector<Flight>(1);
  };

  Compiled compile(PlacedGraph placed);
  void compile_whole(Compiled& result);
  void compile_splits(Compiled& result);
  CompileOptions shared_by_splits(std::size_t n_nodes);
  void add_part(Compiled& result, Part part, const CompileOptions& options);
  void adopt_plans(Compiled& next);
  void make_ahead(Compiled& result, std::span<const StepTensor> tensors, int n_at_once) const;
  bool copies_directly(int from, int to) const { return direct_[to_size(from)][to_size(to)]; }
  DeviceTensor* make_carrier(Compiled& result, int device, ValueId value) const;
  void check(const Step& step) const;
  void rebind(const Rebinding& rebinding);

  // Steps in flight (plan_steps.cpp).
  struct Outlook {
    bool ready = false;     // The flight's next part can be submitted.
    Part* waits = nullptr;  // Otherwise the part that must be waited for. Null: nothing can be done.
  };
  const std::vector<Bindings>& set(std::size_t i) const {
    return i == 0 ? now_.placed.bindings : now_.ahead[i - 1];
  }
  /// Steps in flight, the oldest first.
  Flight& flight(std::size_t i) {
    return now_.flights[(next_flight_ + now_.flights.size() - n_in_flight_ + i) % now_.flights.size()];
  }
  Flight& begin(const Step& step, std::size_t set);
  Outlook outlook(const Flight& flight, const Flight* before);
  void work(std::size_t n_left);
  void submit_next(Flight& flight);
  void fill_inputs(Flight& flight, const Part& part);
  void send_outputs(Flight& flight, const Part& part);
  void drop_transfers(Flight& flight) noexcept;
  Device& device_at(int device) const { return *devices_[to_size(device)]; }
  DeviceTensor& tensor_of(const Flight& flight, int device, ValueId value) const {
    return *set(flight.set)[to_size(device)][to_size(value)];
  }
  std::span<const std::int64_t> symbols_of(const Flight& flight) const {
    return flight.is_cut ? flight.cut_symbols : flight.symbols;
  }
  std::size_t copy_value(const Flight& flight, ValueId value, DeviceTensor& from_tensor,
                         DeviceTensor& to_tensor) const;
  void wait(Part& part);
  void abandon() noexcept;

  const std::vector<Device*> devices_;
  const std::vector<std::vector<bool>> direct_;  // By devices, from and to: Device::can_receive_from.
  const CompileOptions options_;
  const int most_at_once_;
  std::shared_ptr<Workspaces> workspaces_;  // For splits, where the options have none ...
  std::shared_ptr<base::Pool> pool_;        // ... and their threads, for graphs with pool_nodes_ nodes.
  std::size_t pool_nodes_ = 0;
  Compiled now_;
  std::size_t next_flight_ = 0;        // In the ring: the next step's, ...
  std::size_t n_in_flight_ = 0;        // ... and how many before it are in flight.
  std::size_t done_set_ = 0;           // Of the last step that is done.
  std::uint64_t n_submitted_ = 0;      // Parts.
  std::vector<std::int64_t> symbols_;  // Of the last step; empty before the first.
  bool cut_short_ = false;             // Some parts of the last step ran with other symbols, or not at all.
  PlanCounters counters_;
  Profile* profile_ = nullptr;
};

}  // namespace weft::exec
