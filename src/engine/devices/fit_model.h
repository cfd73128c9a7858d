#pragma once
// Places a model's nodes so that it fits: with as many layers on devices as their memory holds, or as the
// user asks for.
//
// Placement has three steps. The user's rules fix the devices of most nodes (placement_rules.h). The rest
// goes where a step costs least (cheapest.h). Then devices report the memory that they would need, with all
// temporaries, tables and sets of overlapping steps (memory_needs). So the fit is checked, not estimated. If
// the model does not fit and the number of layers is open, the same is tried with one layer less.
#include <span>
#include <vector>

#include "exec/device_set.h"
#include "exec/placement.h"
#include "model/builder.h"
#include "weft/graph.h"
#include "weft/model.h"

namespace weft::engine {

/// The expected bounds of contexts' graphs, for which memory is fitted.
model::GraphSizes expected_sizes(const PlacementParams& params, const ModelInfo& info);

/// exec::memory_needs, plus the weights that no node of the graph reads, on each device. A context of another
/// length may read them anywhere (the factors of LongRope).
std::vector<exec::MemoryNeed> memory_needs(const Graph& graph, std::span<Device* const> devices,
                                           std::span<const int> device_of, int host, int n_threads = 0);

/// The device of each node of the graph. With a single device nothing is placed, only the fit is checked.
/// Throws Error kOutOfMemory with the missing memory of each device (only if params.fit), and errors of
/// PlacementRules.
std::vector<int> place_model(const Graph& graph, int n_layers, const exec::DeviceSet& set,
                             const PlacementParams& params, int n_cpu_moe = 0);

}  // namespace weft::engine
