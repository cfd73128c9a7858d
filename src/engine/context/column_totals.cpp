#include "engine/context/column_totals.h"

#include <map>
#include <string>
#include <utility>

#include "base/to_size.h"

namespace weft::engine {
namespace {

template <typename T>
void add_output(const exec::Plan& plan, ValueId value, std::vector<double>& to) {
  const auto* from = reinterpret_cast<const T*>(plan.output(value).host().data());
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += static_cast<double>(from[i]);
}

}  // namespace

ColumnTotals::ColumnTotals(const Graph& graph, std::vector<model::ColumnSum> of)
    : graph_(graph), of_(std::move(of)) {
  const auto n_elements = [&](ValueId value) {
    std::int64_t n = 1;
    for (const std::int64_t size : graph.value(value).shape.dims(graph.bounds())) n *= size;
    return to_size(n);
  };
  for (const model::ColumnSum& one : of_)
    totals_.push_back({std::vector<double>(one.counts == kNoValue ? 1 : n_elements(one.counts)),
                       std::vector<double>(n_elements(one.sums))});
}

void ColumnTotals::add(const exec::Plan& plan, std::span<const std::int64_t> symbols) {
  for (std::size_t i = 0; i < totals_.size(); ++i) {
    const model::ColumnSum& of = of_[i];
    add_output<float>(plan, of.sums, totals_[i].sums);
    if (of.counts != kNoValue) {
      add_output<std::int32_t>(plan, of.counts, totals_[i].counts);
      continue;
    }
    std::int64_t rows = 1;
    const Shape& shape = graph_.value(of.x).shape;
    for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows *= shape[axis].value(symbols);
    totals_[i].counts[0] += static_cast<double>(rows);
  }
}

std::vector<ColumnSums> ColumnTotals::sums() const {
  std::vector<ColumnSums> result;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < totals_.size(); ++i) {
    for (const std::string& tensor : of_[i].tensors) {
      const auto [place, is_new] = places.emplace(tensor, result.size());
      if (is_new) {
        result.push_back({tensor, totals_[i].counts, totals_[i].sums});
        continue;
      }
      // A tensor that several products read, in several layers perhaps.
      ColumnSums& own = result[place->second];
      for (std::size_t j = 0; j < own.sums.size(); ++j) own.sums[j] += totals_[i].sums[j];
      for (std::size_t j = 0; j < own.counts.size(); ++j) own.counts[j] += totals_[i].counts[j];
    }
  }
  return result;
}

}  // namespace weft::engine
