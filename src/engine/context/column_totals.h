#pragma once
// Totals over all steps of a graph's sums of columns (model/column_sums.h).
#include <cstdint>
#include <span>
#include <vector>

#include "exec/plan.h"
#include "model/column_sums.h"
#include "weft/importance.h"

namespace weft::engine {

class ColumnTotals {
 public:
  /// `of` are the graph's sums, which must outlive it.
  ColumnTotals(const Graph& graph, std::vector<model::ColumnSum> of);

  bool empty() const { return totals_.empty(); }
  /// Adds the sums of the plan's last step; `symbols` are that step's.
  void add(const exec::Plan& plan, std::span<const std::int64_t> symbols);
  /// By tensor.
  std::vector<ColumnSums> sums() const;

 private:
  struct Total {
    std::vector<double> counts;
    std::vector<double> sums;
  };
  const Graph& graph_;
  std::vector<model::ColumnSum> of_;
  std::vector<Total> totals_;
};

}  // namespace weft::engine
