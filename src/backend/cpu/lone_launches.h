#pragma once
// Launches of nodes that are fused with nothing.
#include <memory>
#include <span>

#include "backend/cpu/launches/launch.h"
#include "backend/views.h"

namespace weft::cpu {

/// Of a node that reads its inputs row after row. Null for ops that fusion (fuse.cpp) has to do with.
std::unique_ptr<Launch> make_plain_launch(const Graph& graph, const Node& node);

/// Whether a node's launch follows the strides of what its inputs are views of.
bool reads_strides(const Node& node);
/// Of such a node.
std::unique_ptr<Launch> make_strided_launch(const Graph& graph, const Node& node,
                                            std::span<const View> inputs);

}  // namespace weft::cpu
