#pragma once
// Launches of attention over caches and of what brings rows there: rope, stores, moves of cells.
#include <optional>

#include "backend/gpu/launch_builder.h"

namespace weft::gpu {

/// Whether there is a launch here for the node; nothing where the op is none of these. Sizes of its inputs
/// and its output are known to be small enough for indices.
std::optional<bool> can_launch_attention(const Graph& graph, const Node& node);
/// Phases that an attention has before that in which its result is made; of other nodes 0.
int n_phases_before(const LaunchBuilder& builder, const Node& node);
/// Adds the launches of the node that was entered; false where the op is none of these.
bool launch_attention(LaunchBuilder& builder, const Node& node);
/// Those of a store of rows that a rope turns on their way (Fusion::rope_of): enters it.
void launch_turned_store(LaunchBuilder& builder, NodeId store, NodeId rope);

}  // namespace weft::gpu
