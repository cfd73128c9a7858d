#pragma once
// Places a model's nodes so that it fits: with as many layers on devices as their memory holds, or as the
// user asks for.
//
// Placement has three steps. The user's rules fix the devices of most nodes (placement_rules.h). The rest
// goes where a step costs least (cheapest.h). Then devices report the memory that they would need, with all
// temporaries, tables and sets of overlapping steps (memory_needs). So the fit is checked, not estimated.
//
// If the model does not fit, the parameters that the user left open change, in this order. The first choice
// that fits is taken.
//   1. A shorter context, if all layers fit with one: the longest that fits.
//   2. Experts of the first layers on the CPU: as few layers as possible. Each token reads the dense parts
//      and only some experts, so experts leave the fast device first.
//   3. One layer less on the devices at a time, with all experts on the CPU.
//   4. The shortest context, with 2 and 3.
#include <functional>
#include <span>
#include <vector>

#include "exec/device_set.h"
#include "exec/placement.h"
#include "model/builder.h"
#include "weft/graph.h"
#include "weft/model.h"

namespace weft::engine {

/// The expected bounds of contexts' graphs, for which memory is fitted. n_ctx 0: params.n_ctx.
model::GraphSizes expected_sizes(const PlacementParams& params, const ModelInfo& info,
                                 const model::HParams& hparams, int n_ctx = 0);

/// exec::memory_needs, plus the weights that no node of the graph reads, on each device. A context of another
/// length may read them anywhere (the factors of LongRope).
std::vector<exec::MemoryNeed> memory_needs(const Graph& graph, std::span<Device* const> devices,
                                           std::span<const int> device_of, int host, int n_threads = 0);

struct PlacedGraph {
  model::ModelGraph graph;
  std::vector<int> device_of;  ///< By node.
  PlacementReport report;
};

/// Builds the model's graph for contexts of a length.
using GraphOfLength = std::function<model::ModelGraph(int n_ctx)>;

/// Places `graph`, which has the expected sizes. `build` is called only if the context's length is
/// lowered. With a single device nothing is placed, only the fit is checked. Throws Error kOutOfMemory with
/// the missing memory of a device (only if params.fit), and errors of PlacementRules. `has_contexts`: the
/// model is loaded again, and its contexts have kept their memory on the host.
PlacedGraph place_model(model::ModelGraph graph, const GraphOfLength& build, const ModelInfo& info,
                        const exec::DeviceSet& set, const PlacementParams& params, int n_cpu_moe = 0,
                        bool has_contexts = false);

}  // namespace weft::engine
