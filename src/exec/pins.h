#pragma once
// Finds the nodes that match a user's pin.
#include <vector>

#include "weft/backend/device.h"
#include "weft/device.h"
#include "weft/graph.h"

namespace weft::exec {

/// By node: whether its result, or a weight or state of its, has a name in which the pattern is found. Throws
/// Error kInvalidArgument if the pattern is invalid or matches nothing. Throws kUnsupported if `device`,
/// which the pin names, cannot compute one of the nodes.
std::vector<bool> pinned_nodes(const Graph& graph, const Pin& pin, const Device& device);

}  // namespace weft::exec
