#pragma once
// Attention written as separate ops: matmul(softmax(matmul(q, k') * scale + bias), v), if no other node reads
// the scores. It becomes the launch of ops::DenseAttention, which never holds them.
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

/// The attention that begins with this product of q and turned keys, if each value up to the last product has
/// only one reader. `only_user` returns that reader, or kNoNode.
std::optional<AttentionParts> attention_parts(const Graph& graph, NodeId scores,
                                              const std::function<NodeId(ValueId)>& only_user);

}  // namespace weft::cpu
