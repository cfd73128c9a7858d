#pragma once
// Running sums along an axis. A line is cut into parts (ops::Cumsum::kPart). An element is the sum of the
// parts before it, added up in order, plus the sum within its own part. So parts can be made apart, and the
// bits depend on the line alone. If there are too few lines for the threads, one launch makes the parts' sums
// and a second one the rest. Otherwise the second does everything.
#include <memory>
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"

namespace weft::cpu {

/// What both launches know: lines of `size` elements `inner` apart.
struct CumsumLines {
  CumsumLines(const Graph& graph, const Node& node);
  void prepare(const StepInfo& step);

  ops::Cumsum op;
  ValueId input, output;
  bool ints;
  Dim outer_dim, size_dim, inner_dim;
  std::int64_t outer = 0, size = 0, inner = 0;
  std::int64_t n_parts = 0, n_chunks = 0;  ///< Parts of a line, and groups of columns that are made together.
  bool apart = false;                      ///< Tasks are parts of lines.
  std::vector<double> totals;              ///< [outer][part][inner]; whole numbers as such.
};

class CumsumLaunch final : public Launch {
 public:
  /// The first of the two makes `totals`.
  CumsumLaunch(std::shared_ptr<CumsumLines> lines, bool totals) : lines_(std::move(lines)), totals_(totals) {}
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t held_bytes() const override { return totals_ ? lines_->totals.size() * sizeof(double) : 0; }
  std::string describe(const Graph& graph) const override;

 private:
  template <typename T, typename Sum>
  void run_as(std::int32_t task) const;
  template <typename T, typename Sum>
  void run_line(std::int64_t outer, std::int64_t begin, std::int64_t end) const;
  template <typename T, typename Sum>
  void run_columns(std::int64_t outer, std::int64_t chunk, std::int64_t begin, std::int64_t end) const;

  std::shared_ptr<CumsumLines> lines_;
  bool totals_;
  const std::byte* x_ = nullptr;
  std::byte* out_ = nullptr;
  Shares shares_;  // Shares of parts, or of lines.
};

}  // namespace weft::cpu
