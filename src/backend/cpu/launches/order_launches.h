#pragma once
// The launches of ops that count, move, order and draw elements, of attention over given keys and of
// recurrent cells. Each has one node.
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "backend/views.h"

namespace weft::cpu {

/// Whether a node is one of these.
bool is_order_op(const Op& op);
/// Whether its launch reads that input as the view says; all can read one that lies row after row.
bool can_read(const Op& op, std::size_t input, const View& view);
/// What computes it: one launch after another. The last one makes the result.
std::vector<std::unique_ptr<Launch>> order_launches(const Graph& graph, const Node& node,
                                                    std::span<const View> inputs);

}  // namespace weft::cpu
