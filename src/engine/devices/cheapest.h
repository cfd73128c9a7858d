#pragma once
// Where nodes go that no rule says a place for: where a step of one token costs least (exec/placement.h).
#include <span>
#include <vector>

#include "engine/devices/device_set.h"
#include "graph/graph.h"

namespace weft::engine {

/// The device of each node: `fixed` where that is not negative. Throws Error kUnsupported that names a node with no
/// place.
std::vector<int> place_cheapest(const Graph& graph, const DeviceSet& set, std::span<const int> fixed);

}  // namespace weft::engine
