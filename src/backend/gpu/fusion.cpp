#include "backend/gpu/fusion.h"

#include <algorithm>

#include "backend/gpu/kernel.h"
#include "backend/gpu/launch_builder.h"

namespace weft::gpu {
namespace {

/// Rows that an activation's launch can read where they lie: one after another, perhaps with others between.
bool is_rows(const Graph& graph, ValueId value) {
  // The places of views into other values are unknown here.
  const NodeId producer = graph.value(value).producer;
  return producer == kNoNode || !is_view(graph.node(producer).op);
}

/// Whether the launch of a value's node can make codes of it: it has whole rows, or blocks of them, or
/// elements in their order.
bool can_make_codes(const Graph& graph, const Node& node) {
  if (const auto* const norm = get_op<ops::Norm>(node))
    return norm->group == 0 || norm->group == graph.value(node.output).shape.columns();
  if (get_op<ops::Attention>(node) != nullptr) {  // A workgroup that merges pages has a head of a row.
    const auto in = named_inputs<ops::Attention>(node);
    return graph.value(in.v).shape[2].constant() % std::int64_t{kBlock} == 0 &&
           graph.value(in.extents).shape[1].constant() > 1;
  }
  if (get_op<ops::Glu>(node) == nullptr && get_op<ops::Activate>(node) == nullptr) return false;
  const Shape& shape = graph.value(node.output).shape;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    return is_rows(graph, input) && graph.value(input).shape == shape;
  });
}

/// Whether the launch of a store of rows can turn them as well: two pairs at a time, into floats.
bool can_turn_into(const Graph& graph, const Node& store, NodeId producer) {
  if (producer == kNoNode || get_op<ops::StoreCache>(store)->role == CacheRole::kSlots) return false;
  const auto* const rope = get_op<ops::Rope>(graph.node(producer));
  return rope != nullptr && is_float(graph.value(store.inputs[0]).dtype) && rope->n_rot % 4 == 0 &&
         rope->head_dim % 4 == 0;
}

/// Whether a norm can be made of rows that a product has made: of whole ones, with weights from outside.
bool is_of_rows(const Graph& graph, const Node& node) {
  const auto* const norm = get_op<ops::Norm>(node);
  if (norm == nullptr) return false;
  const Shape& shape = graph.value(node.output).shape;
  if (shape.rank() != 2 || (norm->group != 0 && norm->group != shape.columns())) return false;
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId input) {
    return input == kNoValue || graph.value(input).kind == ValueKind::kWeight;
  });
}

}  // namespace

bool multiplies_codes(const Graph& graph, const Node& node, bool byte_dots) {
  if (get_op<ops::Matmul>(node) == nullptr && get_op<ops::MatmulExperts>(node) == nullptr) return false;
  return byte_dots && !is_float(graph.value(node.inputs[0]).dtype);
}

Fusion::Fusion(const Graph& graph, const std::vector<bool>& live, bool byte_dots, bool tails)
    : product_of_(graph.nodes().size(), kNoNode),
      is_added_to_(graph.nodes().size()),
      tail_(graph.nodes().size()),
      tail_of_(graph.nodes().size(), kNoNode),
      rope_of_(graph.nodes().size(), kNoNode),
      is_stored_(graph.nodes().size()),
      makes_codes_(graph.values().size()),
      makes_floats_(graph.values().size()) {
  std::vector<int> n_readers(graph.values().size());
  std::vector<bool> wants_codes(graph.values().size());
  for (std::size_t n = 0; n < live.size(); ++n) {
    if (!live[n]) continue;
    const Node& node = graph.nodes()[n];
    const bool codes = multiplies_codes(graph, node, byte_dots);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input == kNoValue) continue;
      ++n_readers[index(input)];
      if (codes && i == 1) {
        wants_codes[index(input)] = true;
      } else {
        makes_floats_[index(input)] = true;
      }
    }
  }
  for (const ValueId output : graph.outputs()) {
    ++n_readers[index(output)];
    makes_floats_[index(output)] = true;
  }

  for (std::size_t n = 0; n < live.size(); ++n) {
    if (!live[n]) continue;
    const Node& node = graph.nodes()[n];
    const Shape& shape = graph.value(node.output).shape;
    if (wants_codes[index(node.output)] && can_make_codes(graph, node)) {
      // An activation's launch makes either.
      const bool both = get_op<ops::Norm>(node) != nullptr || get_op<ops::Attention>(node) != nullptr;
      makes_codes_[index(node.output)] = both || !makes_floats_[index(node.output)];
    }
    if (!makes_codes_[index(node.output)]) makes_floats_[index(node.output)] = true;

    if (get_op<ops::StoreCache>(node) != nullptr) {
      const NodeId rope = graph.value(node.inputs[1]).producer;
      if (n_readers[index(node.inputs[1])] == 1 && can_turn_into(graph, node, rope)) {
        rope_of_[n] = rope;
        is_stored_[index(rope)] = true;
      }
    }

    if (get_op<ops::Add>(node) != nullptr && node.inputs[0] != node.inputs[1]) {
      for (const std::size_t i : {1, 0}) {
        const NodeId product = graph.value(node.inputs[i]).producer;
        if (product == kNoNode || get_op<ops::Matmul>(graph.node(product)) == nullptr) continue;
        if (n_readers[index(node.inputs[i])] != 1 || !(graph.value(node.inputs[i]).shape == shape) ||
            !(graph.value(node.inputs[1 - i]).shape == shape))
          continue;
        product_of_[n] = product;
        is_added_to_[index(product)] = true;
        break;
      }
    }
    if (tails) find_tail(graph, static_cast<NodeId>(n), n_readers);
  }
}

void Fusion::find_tail(const Graph& graph, NodeId id, const std::vector<int>& n_readers) {
  const Node& node = graph.node(id);
  const auto enter = [&](NodeId product, NodeId RowTail::* member) {
    if (tail_[index(product)].*member != kNoNode) return;
    tail_[index(product)].*member = id;
    tail_of_[index(id)] = product;
  };
  if (is_of_rows(graph, node)) {
    const NodeId source = graph.value(node.inputs[0]).producer;
    if (source == kNoNode) return;
    if (get_op<ops::Matmul>(graph.node(source)) != nullptr || product_of_[index(source)] != kNoNode)
      return enter(source, &RowTail::norm);
    if (const NodeId product = tail_of_[index(source)];
        product != kNoNode && tail_[index(product)].sum == source)
      enter(product, &RowTail::norm);
    return;
  }
  if (get_op<ops::Add>(node) == nullptr || product_of_[index(id)] != kNoNode) return;
  for (const std::size_t i : {1, 0}) {
    const ValueId normed = node.inputs[i], addend = node.inputs[1 - i];
    const NodeId norm = graph.value(normed).producer, source = graph.value(addend).producer;
    const NodeId product = norm == kNoNode ? kNoNode : tail_of_[index(norm)];
    // The values before the sum have no other readers, so the other row does not depend on them.
    if (product == kNoNode || tail_[index(product)].norm != norm || product_of_[index(product)] != kNoNode ||
        n_readers[index(normed)] != 1 || n_readers[index(graph.node(norm).inputs[0])] != 1)
      continue;
    const Shape& shape = graph.value(node.output).shape;
    if (!(graph.value(normed).shape == shape) || !(graph.value(addend).shape == shape) ||
        !is_rows(graph, addend) || (source != kNoNode && source > product))
      continue;
    // What was its norm is its own; another may follow.
    tail_[index(product)] = {.own_norm = norm, .sum = id};
    tail_of_[index(id)] = product;
    return;
  }
}

}  // namespace weft::gpu
