#include "backend/cpu/launches/attention_parts.h"

#include <cmath>
#include <limits>

namespace weft::cpu {
namespace {

constexpr std::int64_t kMaxColumns = 4096;  // Of a head: the kernel keeps blocks of rows near.

bool are_columns(const Dim& size) {
  return size.is_constant() && size.constant() > 0 && size.constant() <= kMaxColumns;
}

/// Matrices of as many axes, and as many of them.
bool same_matrices(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i + 2 < a.rank(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}

/// The factor of a node that multiplies each element with a number.
std::optional<float> factor_of(const Node& node) {
  if (const auto* scale = get_op<ops::Scale>(node)) return scale->factor;
  const auto* binary = get_op<ops::Binary>(node);
  if (binary == nullptr || node.inputs.size() != 1 || binary->scalar_first) return std::nullopt;
  if (binary->kind == BinaryKind::kMul) return binary->scalar;
  if (binary->kind == BinaryKind::kDiv) return 1.0f / binary->scalar;
  return std::nullopt;
}

/// What a node adds to scores, or lets them be seen by.
ValueId bias_of(const Node& node, ValueId scores) {
  if (get_op<ops::Add>(node) != nullptr && node.inputs[0] != node.inputs[1])
    return node.inputs[node.inputs[0] == scores ? 1 : 0];
  const auto* where = get_op<ops::Where>(node);
  if (where != nullptr && node.inputs.size() == 2 && node.inputs[1] == scores &&
      where->otherwise == -std::numeric_limits<float>::infinity())
    return node.inputs[0];
  return kNoValue;
}

}  // namespace

std::optional<AttentionParts> attention_parts(const Graph& graph, NodeId scores,
                                              const std::function<NodeId(ValueId)>& only_user) {
  const Node& first = graph.node(scores);
  const auto shape = [&](ValueId value) -> const Shape& { return graph.value(value).shape; };
  AttentionParts parts;
  parts.q = first.inputs[0];
  parts.turned_keys = first.inputs[1];
  if (!same_matrices(shape(parts.q), shape(parts.turned_keys)) || !are_columns(shape(parts.q).back()))
    return std::nullopt;
  parts.op.scale = 1.0f;
  ValueId value = first.output;
  for (bool weighed = false; !weighed;) {
    const NodeId user = only_user(value);
    if (user == kNoNode || !(shape(graph.node(user).output) == shape(first.output))) return std::nullopt;
    const Node& node = graph.node(user);
    const ValueId bias = bias_of(node, value);
    const auto factor = factor_of(node);
    if (factor && parts.bias == kNoValue) {
      parts.op.scale *= *factor;
    } else if (bias != kNoValue && parts.bias == kNoValue) {
      parts.bias = bias;
    } else if (get_op<ops::Softmax>(node) != nullptr) {
      weighed = true;
    } else {
      return std::nullopt;
    }
    parts.between.push_back(user);
    value = node.output;
  }
  parts.last = only_user(value);
  if (parts.last == kNoNode || !std::isfinite(parts.op.scale) || parts.op.scale == 0.0f) return std::nullopt;
  const Node& last = graph.node(parts.last);
  if (get_op<ops::BatchMatmul>(last) == nullptr || last.inputs[0] != value || last.inputs[1] == value)
    return std::nullopt;
  parts.v = last.inputs[1];
  if (!same_matrices(shape(parts.q), shape(parts.v)) || !are_columns(shape(parts.v).back()))
    return std::nullopt;
  return parts;
}

}  // namespace weft::cpu
