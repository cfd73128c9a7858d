#pragma once
// The origin of indices, and their known bounds.
#include "weft/graph.h"

namespace weft {

/// The value whose elements, perhaps not all, these are: through all views.
ValueId viewed(const Graph& graph, ValueId value);

/// Whether indices that a node makes are always in [0, end): indices of the largest elements, of an order, or
/// a range. False for inputs, which are checked in each step.
bool is_known_below(const Graph& graph, ValueId indices, const Dim& end);

}  // namespace weft
