#pragma once
// Placement: which device computes each node. Pins and support say where a node can be. Among the assignments
// that are left, the one of least cost is taken: what devices need for their nodes in a step, and links for
// what crosses.
//
// It is the cheapest assignment, not a rule of thumb. What is to come of a graph depends only on where the
// values lie that are still to be read, so dynamic programming over the order of the nodes finds it. A model
// of 636 nodes on two devices takes 15 ms, exactly.
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "exec/splits.h"
#include "weft/backend/device.h"
#include "weft/graph.h"

namespace weft::exec {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// How fast a device is, in a step's terms.
struct NodeSpeed {
  double bytes_per_second = 0.0;  ///< Of weights streamed through.
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
  double node_at(std::size_t n, int device) const {
    return node[n * static_cast<std::size_t>(n_devices) + static_cast<std::size_t>(device)];
  }
  double copy_of(ValueId value, int from, int to) const {
    const auto n = static_cast<std::size_t>(n_devices);
    return copy[(static_cast<std::size_t>(value) * n + static_cast<std::size_t>(from)) * n +
                static_cast<std::size_t>(to)];
  }
};

/// The costs of a step with these symbols. `links` is [from][to]. A node that a device does not support is
/// impossible there; states cannot be copied.
Costs costs_of(const Graph& graph, std::span<Device* const> devices, std::span<const NodeSpeed> speeds,
               std::span<const Link> links, int host, std::span<const std::int64_t> symbols);

/// What an assignment costs: its nodes, one copy of each value to each other device that reads it (of inputs
/// from the host, of outputs to the host). kImpossible where it breaks a rule.
double cost_of(const Graph& graph, const Costs& costs, std::span<const int> device_of);

struct Placement {
  std::vector<int> device_of;  ///< By node; of nodes that nobody needs any that is possible.
  double seconds = kImpossible;
  bool exact = true;  ///< No assignment is cheaper.
};

/// The assignment of least cost. Of all assignments of the nodes so far that agree on where the values lie
/// that are still to be read, the cheapest is kept. Work is nodes x states x devices, with at most (devices *
/// 2^(devices-1)) ^ (values alive at a time) states. What costs more than the greedy rule is dropped on the
/// way. Beyond `max_states` the cheapest states go on, and the result may not be exact; beyond 26 devices it
/// is the rule of thumb's. Throws Error
/// kUnsupported that names a node with no place.
Placement place(const Graph& graph, const Costs& costs, std::size_t max_states = 20000);

/// The rule of thumb that others use, to compare with: nodes that can be in one place only are there, each
/// other one is where most of its inputs are made, on the faster device among equals.
Placement place_greedily(const Graph& graph, const Costs& costs);

/// What a placement takes of a device's memory: weights and states of its nodes, and at the bounds of all
/// symbols what steps read, write and copy (in all sets, where steps overlap), temporaries and tables.
/// Devices are asked what a plan would take (Device::memory_of), so this is exact for contexts that share
/// their temporaries with no other.
struct MemoryNeed {
  std::size_t weights = 0, states = 0, step_tensors = 0, workspace = 0;
  std::size_t total() const { return weights + states + step_tensors + workspace; }
};
/// Inputs that nobody reads are the host's. `most_at_once`: see steps_at_once.
std::vector<MemoryNeed> memory_needs(const Graph& graph, std::span<Device* const> devices,
                                     std::span<const int> device_of, int host, int n_threads = 0,
                                     int most_at_once = kMostAtOnce);

}  // namespace weft::exec
