#pragma once
// Attention that a graph writes out: matmul(softmax(matmul(q, k') * scale + bias), v), where nobody reads the
// scores. It becomes the launch of ops::DenseAttention, which never holds them.
#include <functional>
#include <optional>
#include <vector>

#include "weft/graph.h"

namespace weft::cpu {

struct AttentionParts {
  ops::DenseAttention op;
  ValueId q = kNoValue;
  ValueId turned_keys = kNoValue;  ///< {..., columns, keys}
  ValueId v = kNoValue;
  ValueId bias = kNoValue;  ///< A mask, where it is I32.
  NodeId last = kNoNode;    ///< The product with v.
  std::vector<NodeId> between;
};

/// What begins with that product of q and turned keys, if all between it and the last one is read by the next
/// alone: `only_user` says by whom, or kNoNode.
std::optional<AttentionParts> attention_parts(const Graph& graph, NodeId scores,
                                              const std::function<NodeId(ValueId)>& only_user);

}  // namespace weft::cpu
