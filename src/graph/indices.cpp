#include "graph/indices.h"

namespace weft {

ValueId viewed(const Graph& graph, ValueId value) {
  for (;;) {
    const NodeId producer = graph.value(value).producer;
    if (producer == kNoNode || !is_view(graph.node(producer).op)) return value;
    value = graph.node(producer).inputs[0];
  }
}

bool is_known_below(const Graph& graph, ValueId indices, const Dim& end) {
  const NodeId producer = graph.value(viewed(graph, indices)).producer;
  if (producer == kNoNode) return false;
  const Node& node = graph.node(producer);
  const auto fits = [&](const Dim& size) {
    return size == end || (size.is_constant() && end.is_constant() && size.constant() <= end.constant());
  };
  if (get_op<ops::TopK>(node) != nullptr) return fits(graph.value(node.inputs[0]).shape.back());
  if (const auto* sort = get_op<ops::Argsort>(node))
    return fits(graph.value(node.inputs[0]).shape[sort->axis]);
  // Quotients of known indices.
  if (const auto* by = get_op<ops::IntBinary>(node); by != nullptr && by->kind == IntKind::kFloorDivide &&
                                                     node.inputs.size() == 1 && !by->scalar_first &&
                                                     by->scalar > 0 && end.is_constant())
    return is_known_below(graph, node.inputs[0], Dim(end.constant() * by->scalar));
  const auto* range = get_op<ops::Arange>(node);
  return range != nullptr && range->begin == Dim(0) && range->step == 1 && fits(range->size);
}

}  // namespace weft
