#pragma once
// What a user's placement says of nodes' devices. From the weakest rule to the strongest:
//
//   layers   The last n layers go to the named devices, in shares; n one more than there are takes the head
//            too. The rest, and the table of embeddings where the head does not use it as well, is the CPU's.
//            With split_rows, shards go to the device of their number, the rest of the layers to the first
//            device with a share.
//   experts  experts_on_cpu, n_cpu_moe: the nodes of Part::kExperts are the CPU's, in all layers or the first
//            so many.
//   pins     Nodes whose output, weights or states a pattern is found in. The last pin that fits a node wins.
//
// All nodes of a state (a cache, a running state) are on one device. A pin takes them all along; if the pin's
// device cannot compute one of them, all are open. What is open is placed by cost (cheapest.h). Layers, parts
// and shards come from NodeTag; names matter for pins only.
#include <cstdint>
#include <span>
#include <vector>

#include "exec/device_set.h"
#include "weft/device.h"
#include "weft/graph.h"

namespace weft::engine {

/// The shares of the devices in layers that they compute together (model::GraphSizes::row_shares). Empty
/// where they do not.
std::vector<double> row_shares(const PlacementParams& params);

/// All that it is given must outlive it.
class PlacementRules {
 public:
  /// Throws Error kInvalidArgument if a pattern is invalid or matches nothing. Throws kNotFound for a pin's
  /// device that is not in the set, and kUnsupported for one that cannot compute the pinned nodes.
  PlacementRules(const Graph& graph, int n_layers, const exec::DeviceSet& set, const PlacementParams& params,
                 int n_cpu_moe = 0);

  /// The default way to divide layers.
  enum class Shares : std::uint8_t {
    kSpeed,   ///< So that each reads its weights in the same time: of CPUs alone.
    kMemory,  ///< Their numbers by free memory.
  };
  /// Those that come into question, the best first.
  std::span<const Shares> ways_to_share() const;
  /// The device of each node where the last n_named layers go to the named devices; -1 where it is open.
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
