#pragma once
// Placement: which device computes each node. Pins and support say where a node can be. Among the remaining
// assignments the cheapest is taken. Its cost is the time that devices need for their nodes in a step, and
// links for the copies.
//
// It is the cheapest assignment, not a rule of thumb. The cost of the rest of a graph depends only on the
// devices of the values that are still to be read. So dynamic programming over the order of the nodes finds
// the assignment. A model of 636 nodes on two devices takes 15 ms, exactly.
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "exec/splits.h"
#include "weft/backend/device.h"
#include "weft/graph.h"

namespace weft::exec {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// The speed of a device for the nodes of a step.
struct NodeSpeed {
  double bytes_per_second = 0.0;  ///< For streamed weights.
  double flops = 0.0;             ///< Multiplications and additions of products, per second.
  double node_seconds = 0.0;      ///< Fixed, for each node.
};

/// A way from one device to another.
struct Link {
  double seconds = 0.0;  ///< Fixed, for each value.
  double bytes_per_second = 1.0;
};

/// By value: the devices of the nodes that read it, each once, in the order of the nodes.
std::vector<std::vector<int>> devices_reading(const Graph& graph, std::span<const int> device_of);

/// The cost of each choice in one kind of step.
struct Costs {
  int n_devices = 0;
  int host = 0;              ///< The device on whose side inputs are written and outputs read.
  std::vector<double> node;  ///< [node][device] seconds; kImpossible: it cannot be there.
  std::vector<double> copy;  ///< [value][from][to] seconds.
  double node_at(std::size_t n, int device) const { return node[n * to_size(n_devices) + to_size(device)]; }
  double copy_of(ValueId value, int from, int to) const {
    const auto n = to_size(n_devices);
    return copy[(to_size(value) * n + to_size(from)) * n + to_size(to)];
  }
};

/// The costs of a step with these symbols. `links` is [from][to]. A node that a device does not support is
/// impossible there; states cannot be copied.
Costs costs_of(const Graph& graph, std::span<Device* const> devices, std::span<const NodeSpeed> speeds,
               std::span<const Link> links, int host, std::span<const std::int64_t> symbols);

/// The cost of an assignment: its nodes, and one copy of each value to each other device that reads it.
/// Inputs are copied from the host and outputs to it. kImpossible if the assignment breaks a rule.
double cost_of(const Graph& graph, const Costs& costs, std::span<const int> device_of);

struct Placement {
  std::vector<int> device_of;  ///< By node; any possible device for unused nodes.
  double seconds = kImpossible;
  bool exact = true;  ///< No assignment is cheaper.
};

/// The assignment of least cost. Of all assignments of the nodes so far that put the values still to be read
/// on the same devices, the cheapest is kept. Work is nodes x states x devices, with at most (devices *
/// 2^(devices-1)) ^ (values alive at a time) states. Assignments that cost more than the greedy rule are
/// dropped early. Beyond `max_states` only the cheapest states are kept, and the result may not be exact.
/// Beyond 26 devices the greedy rule is used. Throws Error kUnsupported that names a node with no place.
Placement place(const Graph& graph, const Costs& costs, std::size_t max_states = 20000);

/// The usual greedy rule, for comparison. Nodes that only one device can compute are placed there. Each other
/// node goes to the device that makes most of its inputs, the faster one among equals.
Placement place_greedily(const Graph& graph, const Costs& costs);

/// The memory that a placement takes on a device: weights and states of its nodes, inputs, outputs and copies
/// of steps, temporaries and tables. Sizes are at the bounds of all symbols, and steps that overlap have
/// several sets. Devices report the needs of a plan (Device::memory_of), so this is exact for contexts that
/// do not share their temporaries.
struct MemoryNeed {
  std::size_t weights = 0, states = 0, step_tensors = 0, workspace = 0;
  std::size_t total() const { return weights + states + step_tensors + workspace; }
};
/// Unused inputs are placed on the host. `most_at_once`: see steps_at_once.
std::vector<MemoryNeed> memory_needs(const Graph& graph, std::span<Device* const> devices,
                                     std::span<const int> device_of, int host, int n_threads = 0,
                                     int most_at_once = kMostAtOnce);

}  // namespace weft::exec
