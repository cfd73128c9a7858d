#pragma once
// Launches of ops over values of any rank, and of rows of several sequences. Launches for any rank read the
// bases of their operands' views.
#include <optional>

#include "backend/gpu/launch_builder.h"

namespace weft::gpu {

/// Whether there is a launch here for the node; nothing where the op is none of these. Sizes of its inputs
/// and its output are known to be small enough for indices.
std::optional<bool> can_launch_general(const Graph& graph, const Node& node);
/// Whether an op's inputs may be views with strides.
bool reads_strides(const Op& op);
/// Adds the launches of the node that was entered; false where the op is none of these.
bool launch_general(LaunchBuilder& builder, const Node& node);

/// A view op's result: no launch, unless it needs its own memory.
void add_view(LaunchBuilder& builder, NodeId node);
/// Gives a value its own memory where it has strides, or does so for all inputs of a node.
void make_plain(LaunchBuilder& builder, ValueId value);
void make_inputs_plain(LaunchBuilder& builder, const Node& node);

}  // namespace weft::gpu
