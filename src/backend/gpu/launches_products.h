#pragma once
// Launches of products of weights with rows, and with each row's experts. Products have one row or few, whose
// last workgroup may continue (fusion.h), or many in tiles.
#include <optional>

#include "backend/gpu/launch_builder.h"

namespace weft::gpu {

/// Whether there is a launch here for the node; nothing if the op is not a product with weights. Sizes of its
/// inputs and its output are known to be small enough for indices.
std::optional<bool> can_launch_product(const Graph& graph, const Node& node);
/// For any node: the first phase in which all its inputs are ready, including data that launches prepare for
/// it.
int first_phase(const LaunchBuilder& builder, const Node& node);
/// Adds the launches of the node that was entered; false where the op is none of these.
bool launch_product(LaunchBuilder& builder, const Node& node);
/// Those of an addition to a product's rows, by the product's launch (Fusion::product_of): enters it.
void launch_product_and_sum(LaunchBuilder& builder, NodeId sum, NodeId product);
/// Those that make what products share, now that it is known: codes of rows, and rows sorted by expert.
void launch_fillers(LaunchBuilder& builder);

}  // namespace weft::gpu
