#pragma once
// What of a graph several devices can compute in pieces (shard.h): the analysis of the whole graph, and the
// bounds of pieces.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/graph.h"

namespace weft::model {

/// By value of the whole graph.
struct Cuts {
  /// Heads of the caches whose heads can be on several devices, 0 for others. Keys and values go together.
  std::vector<std::int64_t> n_heads;
  /// The number of groups of columns that must stay together. It is set for values that attention reads and
  /// for the values from which they are computed column by column.
  std::vector<std::int64_t> units;
  /// Products of which slices of columns are read, and nothing else.
  std::vector<bool> slices_only;
};
Cuts find_cuts(const Graph& graph);

const Shape& shape_of(const Graph& graph, ValueId value);
bool is_weight(const Graph& graph, ValueId value);
/// The columns of a value of several rows, or 0 where they are not constant.
std::int64_t columns_of(const Shape& shape);
/// A product whose weight is one whose rows can be cut.
bool is_product(const Graph& graph, const Node& node);
bool is_of_experts(const Node& node);
bool is_slice_of_columns(const Graph& graph, const Node& node);
/// Inputs that are cut where the result is: each column of it depends on the same one of these alone. For
/// broadcast values, all inputs.
std::vector<std::size_t> cut_inputs(const Graph& graph, const Node& node);
/// KV heads of attention over rows of the step; 0 where it reads states.
std::int64_t ragged_heads(const Graph& graph, const Node& node);

/// Where each device's columns end, the first beginning at 0.
using Bounds = std::vector<std::int64_t>;

/// n columns of `n_units` groups, cut between them; of 0, anywhere that suits products. Empty where there are
/// too few to go round.
Bounds cut(std::int64_t n, std::int64_t n_units, const std::vector<double>& shares);
inline std::int64_t begin_of(const Bounds& bounds, std::size_t d) { return d == 0 ? 0 : bounds[d - 1]; }
inline std::int64_t size_of(const Bounds& bounds, std::size_t d) { return bounds[d] - begin_of(bounds, d); }
/// The same share of another number of columns.
Bounds scaled(Bounds bounds, std::int64_t n);
/// Whether no group of `unit` columns is cut.
bool between(const Bounds& bounds, std::int64_t unit);

}  // namespace weft::model
