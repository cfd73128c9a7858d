#pragma once
// The user's rules for the devices of nodes. From the weakest rule to the strongest:
//
//   layers   The last n layers go to the named devices, in shares. If n is one more than the number of
//            layers, the head goes there, too. The rest is on the CPU, also the embedding table unless the
//            head shares it. With split_rows, shard i goes to device i, and the rest of the layers to the
//            first device with a share.
//   experts  experts_on_cpu, n_cpu_moe: the nodes of Part::kExperts are on the CPU, in all layers or in the
//            first n_cpu_moe.
//   pins     Nodes with a pattern in the name of their output, weights or states. The last matching pin wins.
//
// All nodes of a state (a cache, a running state) are on one device. A pin of one node moves them all. If the
// pin's device cannot compute one of them, all are open. Open nodes are placed by cost (cheapest.h). Layers,
// parts and shards come from NodeTag; names matter for pins only.
#include <cstdint>
#include <span>
#include <vector>

#include "exec/device_set.h"
#include "weft/device.h"
#include "weft/graph.h"

namespace weft::engine {

/// The devices' shares of layers that they compute together (model::GraphSizes::row_shares). Empty if they do
/// not.
std::vector<double> row_shares(const PlacementParams& params);

/// All arguments must outlive it.
class PlacementRules {
 public:
  /// Throws Error kInvalidArgument if a pattern is invalid or matches nothing. Throws kNotFound for a pin's
  /// device that is not in the set, and kUnsupported for one that cannot compute the pinned nodes.
  PlacementRules(const Graph& graph, int n_layers, const exec::DeviceSet& set, const PlacementParams& params,
                 int n_cpu_moe = 0);

  /// The default way to divide layers.
  enum class Shares : std::uint8_t {
    kSpeed,   ///< Each device reads its weights in the same time; for CPUs only.
    kMemory,  ///< In proportion to free memory.
  };
  /// The candidates, the best first.
  std::span<const Shares> ways_to_share() const;
  /// The device of each node if the last n_named layers go to the named devices; -1 if open.
  std::vector<int> with_layers(int n_named, Shares by = Shares::kMemory) const;

 private:
  int layer_of(const Node& node) const;
  bool is_separate_table(const Node& node) const;
  std::vector<int> ends_of_shares(int first, int end, Shares by) const;
  std::vector<double> weight_bytes() const;
  void open_states(std::vector<int>& device_of) const;
  void pin_experts(int n_cpu_moe);
  void apply(const Pin& pin);
  void unite_states();

  const Graph& graph_;
  const int n_layers_;
  const exec::DeviceSet& set_;
  const PlacementParams& params_;
  std::vector<int> pinned_;  // By node: a device or -1.
};

}  // namespace weft::engine
