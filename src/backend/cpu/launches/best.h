#pragma once
// Reductions of a product's rows that replace the output: the best values, copies of some rows, and sums
// (log_sum.h). They are computed while its tiles are made. Each thread keeps lists of the best values that it
// saw. The lists are merged when all threads are done. Their order is total (larger value, then lower index),
// so the division among threads does not matter.
//
// Unused logits are not written. Each row of a step selects its outputs: its best tokens (ops::Best), its
// log-sum-exp, or all its logits. The head is one product for all of them, whose weights are read once. Its
// tiles stay in the kernel's buffer, and are written only for rows whose full logits are wanted. One
// comparison says of 16 logits that none is among the best so far. Greedy and top-k sampling begin with the
// best values and draw the same tokens.
#include <memory>
#include <utility>
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/log_sum.h"
#include "backend/cpu/launches/merge.h"
#include "base/memory.h"

namespace weft::cpu {

/// The first `wanted` entries in the order of ops::Best's result, a row of 2n floats.
void write_best(const BestEntry* entries, int wanted, int n, float* out);

/// The threads' lists for the rows of a step.
class BestLists {
 public:
  BestLists(const Graph& graph, const Node& node, int n_threads);

  int n() const { return n_; }
  const std::int32_t* counts() const { return counts_; }
  void bind(const Addresses& addresses);
  /// Runs before any task of a step.
  void begin_step(const StepInfo& step, std::int64_t n_rows);
  /// A thread's lists, [row][n]; empty when it first asks in a step.
  BestEntry* of_thread(int thread);
  /// The thread's list of a row; null where it did nothing in this step.
  const BestEntry* find(int thread, std::int64_t row) const;
  /// The best values of a row over all threads' lists. Returns their number, which the row asks for. `next`
  /// has room for a pointer for each thread.
  int merge(std::int64_t row, const BestEntry** next, BestEntry* best) const;
  int n_threads() const { return static_cast<int>(in_step_.size()); }
  std::size_t held_bytes() const { return memory_.size(); }

 private:
  struct alignas(64) Seen {
    std::uint64_t step = 0;
  };
  BestEntry* at(int thread) const {
    return reinterpret_cast<BestEntry*>(memory_.data()) + static_cast<std::ptrdiff_t>(thread) * per_thread_;
  }

  int n_;
  ValueId counts_id_;
  std::ptrdiff_t per_thread_;  // Entries.
  base::Memory memory_;
  std::vector<Seen> in_step_;  // By thread: the last step in which it asked.
  const std::int32_t* counts_ = nullptr;
  std::uint64_t step_ = 0;
  std::int64_t n_rows_ = 0;
};

/// The rows that are written, as a get_rows of the product says: any number of copies of each.
class RowCopies {
 public:
  /// `node` is null where there are none.
  RowCopies(const Graph& graph, const Node* node);
  ValueId output() const { return out_id_; }
  std::int64_t n() const { return n_; }  ///< In this step, once it has begun.
  void bind(const Addresses& addresses);
  /// Runs before any task of a step.
  void begin_step(const StepInfo& step);
  /// Says so to a kernel.
  void ask(MatmulArgs& args) const;

 private:
  ValueId ids_id_ = kNoValue, out_id_ = kNoValue;
  Dim rows_;
  std::vector<std::int32_t> first_, next_;  // BestArgs::first_copy, next_copy.
  const std::int32_t* ids_ = nullptr;
  float* out_ = nullptr;
  std::int64_t n_ = 0;
};

/// All that is taken of one product.
struct Taken {
  BestLists best;
  RowCopies copies;
  LogSums log_sums;

  void bind(const Addresses& addresses) {
    best.bind(addresses), copies.bind(addresses), log_sums.bind(addresses);
  }
  void begin_step(const StepInfo& step, std::int64_t n_rows) {
    best.begin_step(step, n_rows), copies.begin_step(step), log_sums.begin_step(n_rows);
  }
  bool only_best() const { return copies.n() == 0 && !log_sums.any(); }  ///< In this step, once it has begun.
};

/// Merges the lists.
class BestLaunch final : public MergeLaunch {
 public:
  BestLaunch(const Graph& graph, const Node& node, std::shared_ptr<const Taken> taken)
      : MergeLaunch(graph, node, "best_merge", std::move(taken)) {}
  std::size_t scratch_bytes() const override;
  std::size_t held_bytes() const override { return taken().best.held_bytes(); }

 private:
  void merge(std::int64_t row, const TaskContext& context, float* out) const override;
};

}  // namespace weft::cpu
