#pragma once
// Where indices come from, and what is known of them.
#include "weft/graph.h"

namespace weft {

/// The value whose elements, perhaps not all, these are: through all views.
ValueId viewed(const Graph& graph, ValueId value);

/// Whether indices that a node makes are from 0 to below `end` whatever the step: those of the largest, of an
/// order, or a range. False of inputs, which steps are asked about.
bool is_known_below(const Graph& graph, ValueId indices, const Dim& end);

}  // namespace weft
