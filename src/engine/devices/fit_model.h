#pragma once
// Where a model's nodes run, so that it fits: as many layers as the devices' memory holds, or as the user
// asks for.
//
// Placement has three steps. The user's rules fix the devices of most nodes (placement_rules.h). The rest
// goes where a step costs least (cheapest.h). Then devices report the memory that they would need, with all
// temporaries, tables and sets of overlapping steps (memory_needs). So whether it fits is known and not
// estimated. If it does not fit, and the number of layers is open, the same is tried with one layer less.
#include <span>
#include <vector>

#include "exec/device_set.h"
#include "exec/placement.h"
#include "model/builder.h"
#include "weft/graph.h"
#include "weft/model.h"

namespace weft::engine {

/// The bounds that contexts are expected to give the graph: what memory is fitted to.
model::GraphSizes expected_sizes(const PlacementParams& params, const ModelInfo& info);

/// exec::memory_needs, and on each device the weights that no node of the graph reads: a context of another
/// length may, anywhere, as the factors of LongRope.
std::vector<exec::MemoryNeed> memory_needs(const Graph& graph, std::span<Device* const> devices,
                                           std::span<const int> device_of, int host, int n_threads = 0);

/// The device of each node of the graph. On a single device nothing is placed, only the fit is checked.
/// Throws Error: kOutOfMemory that says how much is lacking where (only where params.fit), and what
/// PlacementRules throws.
std::vector<int> place_model(const Graph& graph, int n_layers, const exec::DeviceSet& set,
                             const PlacementParams& params, int n_cpu_moe = 0);

}  // namespace weft::engine
