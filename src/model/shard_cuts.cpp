#include "model/shard_cuts.h"

#include <algorithm>
#include <numeric>
#include <variant>

#include "base/to_size.h"

namespace weft::model {

const Shape& shape_of(const Graph& graph, ValueId value) { return graph.value(value).shape; }

bool is_weight(const Graph& graph, ValueId value) { return graph.value(value).kind == ValueKind::kWeight; }

std::int64_t columns_of(const Shape& shape) {
  return shape.rank() > 0 && shape.back().is_constant() ? shape.back().constant() : 0;
}

bool is_of_experts(const Node& node) { return get_op<ops::MatmulExperts>(node) != nullptr; }

bool is_product(const Graph& graph, const Node& node) {
  const bool plain = get_op<ops::Matmul>(node) != nullptr;
  return (plain || is_of_experts(node)) && is_weight(graph, node.inputs[0]);
}

std::vector<std::size_t> cut_inputs(const Graph& graph, const Node& node) {
  const auto is = [&]<typename... T>(std::variant<T...>*) { return (... || (get_op<T>(node) != nullptr)); };
  using EachElement = std::variant<ops::Scale, ops::Softcap, ops::Activate, ops::Unary, ops::Clamp, ops::Cast,
                                   ops::Add, ops::Mul, ops::Glu, ops::Binary, ops::Where, ops::Compare>;
  using EachColumn =
      std::variant<ops::Norm, ops::Rope, ops::Hadamard, ops::GetRows, ops::RaggedMean, ops::SumExperts>;
  if (is(static_cast<EachElement*>(nullptr))) {
    std::vector<std::size_t> all(node.inputs.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }
  if (get_op<ops::Override>(node) != nullptr) return {0, 1};
  if (is(static_cast<EachColumn*>(nullptr))) return {0};
  const std::int64_t columns = columns_of(shape_of(graph, node.output));
  const bool keeps_columns =
      !node.inputs.empty() && columns > 1 && columns_of(shape_of(graph, node.inputs[0])) == columns;
  if (get_op<ops::Reshape>(node) != nullptr && keeps_columns) return {0};
  if (const auto* reduce = get_op<ops::Reduce>(node); reduce != nullptr && keeps_columns)
    if ((reduce->axes >> (shape_of(graph, node.inputs[0]).rank() - 1) & 1) == 0) return {0};
  return {};
}

bool is_slice_of_columns(const Graph& graph, const Node& node) {
  const auto* const slice = get_op<ops::Slice>(node);
  return slice != nullptr && slice->step == 1 && slice->begin.is_constant() && slice->end.is_constant() &&
         slice->axis == shape_of(graph, node.output).rank() - 1;
}

std::int64_t ragged_heads(const Graph& graph, const Node& node) {
  const auto in = named_inputs<ops::RaggedAttention>(node);
  if (shape_of(graph, in.k).rank() != 2 || shape_of(graph, in.v).rank() != 2) return 0;
  const std::int64_t dim = columns_of(shape_of(graph, in.q)) / get_op<ops::RaggedAttention>(node)->n_heads;
  return columns_of(shape_of(graph, in.k)) / dim;
}

namespace {

/// Matrices are cut at multiples of this, which suits the panels of every device.
constexpr std::int64_t kRows = 16;

/// Cuts::n_heads.
std::vector<std::int64_t> heads_of_states(const Graph& graph) {
  std::vector<std::int64_t> n_heads(graph.values().size(), 0);
  std::vector<bool> whole(graph.values().size());
  for (const Node& node : graph.nodes()) {
    const auto* const attention = get_op<ops::Attention>(node);
    for (const ValueId input : node.inputs) {
      const ValueId state = state_behind(graph, input);
      if (state == kNoValue) continue;
      const bool known = attention != nullptr || get_op<ops::MoveCells>(node) != nullptr ||
                         get_op<ops::StoreCache>(node) != nullptr;
      const Shape& shape = shape_of(graph, state);
      if (!known || shape[1].constant() < 2 || (attention != nullptr && attention->alibi != 0.0f))
        whole[index(state)] = true;
      if (attention != nullptr) n_heads[index(state)] = shape[1].constant();
    }
  }
  for (bool again = true; again;) {
    again = false;
    for (const Node& node : graph.nodes()) {
      if (get_op<ops::Attention>(node) == nullptr) continue;
      const auto in = named_inputs<ops::Attention>(node);
      const std::size_t k = index(state_behind(graph, in.k)), v = index(state_behind(graph, in.v));
      if (whole[k] != whole[v] || (n_heads[k] != n_heads[v] && !whole[k])) {
        whole[k] = whole[v] = true;
        again = true;
      }
    }
  }
  for (std::size_t v = 0; v < whole.size(); ++v)
    if (whole[v]) n_heads[v] = 0;
  return n_heads;
}

/// Cuts::units.
std::vector<std::int64_t> units_of_columns(const Graph& graph, const std::vector<std::int64_t>& n_heads) {
  std::vector<std::int64_t> units(graph.values().size(), 0);
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    const auto wish = [&](ValueId value, std::int64_t n_units) {
      if (n_units > 0 && columns_of(shape_of(graph, value)) % n_units == 0) units[index(value)] = n_units;
    };
    if (get_op<ops::Attention>(node) != nullptr) {
      const auto in = named_inputs<ops::Attention>(node);
      wish(in.q, n_heads[index(state_behind(graph, in.k))]);
    } else if (get_op<ops::StoreCache>(node) != nullptr) {
      wish(node.inputs[1], n_heads[index(state_behind(graph, node.inputs[0]))]);
    } else if (get_op<ops::RaggedAttention>(node) != nullptr) {
      const auto in = named_inputs<ops::RaggedAttention>(node);
      const std::int64_t n_kv = ragged_heads(graph, node);
      for (const ValueId value : {in.q, in.k, in.v}) wish(value, n_kv);
    } else {
      for (const std::size_t i : cut_inputs(graph, node)) wish(node.inputs[i], units[index(node.output)]);
    }
  }
  return units;
}

/// Cuts::slices_only.
std::vector<bool> products_of_slices(const Graph& graph) {
  std::vector<bool> slices_only(graph.values().size(), false);
  for (const Node& node : graph.nodes())
    slices_only[index(node.output)] =
        is_product(graph, node) && node.inputs.size() == (is_of_experts(node) ? 3U : 2U);
  for (const ValueId output : graph.outputs()) slices_only[index(output)] = false;
  for (const Node& node : graph.nodes())
    for (const ValueId input : node.inputs)
      if (!is_slice_of_columns(graph, node)) slices_only[index(input)] = false;
  return slices_only;
}

}  // namespace

Cuts find_cuts(const Graph& graph) {
  Cuts cuts;
  cuts.n_heads = heads_of_states(graph);
  cuts.units = units_of_columns(graph, cuts.n_heads);
  cuts.slices_only = products_of_slices(graph);
  return cuts;
}

Bounds cut(std::int64_t n, std::int64_t n_units, const std::vector<double>& shares) {
  const std::int64_t unit = n_units > 0 ? n / n_units : kRows;
  const std::int64_t n_whole = n / unit;
  if (n_whole < 2) return {};
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  Bounds bounds;
  double so_far = 0.0;
  for (const double share : shares) {
    so_far += share;
    bounds.push_back(unit * static_cast<std::int64_t>(so_far / sum * static_cast<double>(n_whole) + 0.5));
  }
  const auto last =
      to_size(std::find_if(shares.rbegin(), shares.rend(), [](double share) { return share > 0.0; }).base() -
              shares.begin());
  for (std::size_t d = last - 1; d < bounds.size(); ++d) bounds[d] = n;
  return bounds;
}

Bounds scaled(Bounds bounds, std::int64_t n) {
  const std::int64_t all = bounds.back();
  for (std::int64_t& bound : bounds) bound = bound * n / all;
  return bounds;
}

bool between(const Bounds& bounds, std::int64_t unit) {
  return std::all_of(bounds.begin(), bounds.end(), [&](std::int64_t b) { return b % unit == 0; });
}

}  // namespace weft::model
