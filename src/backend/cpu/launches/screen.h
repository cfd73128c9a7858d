#pragma once
// The best rows of a product with a tall matrix (packed.h) and a few columns, without reading all of it. A
// pass over the high bits of all codes bounds every row's product. The products of the most promising rows
// give a lower limit for the best. Only rows whose bound reaches the limit are looked at again, and at last
// computed, by the usual kernel. So the result is bit-identical to the full product. If the high bits rule
// out too little, the pass is deep: it includes the middle bits.
//
// It takes two phases. Steps with more columns do the whole product instead: that is limited by arithmetic,
// which screening does not save.
//
// For a tall Q8_0 matrix (at least twelve times as many rows as columns, which only heads have) the codes'
// nibbles are in the panels. Their middle and lowest pairs of bits are in planes after the panels. If one or
// two columns want only their best rows, a pass over the nibbles gives each row a sum and a bound on the
// contribution of the other bits. The panels that may reach the limit are looked at again with their middle
// bits, and the rest is computed by the usual kernel (screen.inl). Nothing is estimated: tokens and bits are
// the same as with the whole product, for any weights and activations. Nibbles rule out too little if many
// rows are wanted, or if a few activations are far larger than the others. The head is 72 % of the bytes that
// Gemma 3 reads for a token: decoding is 1.5 times as fast, and 1.24 times if the best 40 are wanted.
// Products with more columns assemble codes from three planes. That costs 6 to 9 % of the head's time with
// AVX-512 (assembling them once for all columns cost more). With AVX2 it cost a third, so eight columns or
// more assemble them once (unpacked.inl). labs/screen_lab shows the savings.
#include <atomic>
#include <memory>
#include <vector>

#include "backend/cpu/launches/best.h"
#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/matmul.h"
#include "base/memory.h"

namespace weft::cpu {

/// Whether such a product is to be screened where its weight lies packed.
bool can_screen(const Graph& graph, const MatmulValues& values);
/// Whether a step with n_columns columns and these reductions is screened.
inline bool screens(const PackedMatrix& weight, std::int64_t n_columns, const Taken& taken) {
  return weight.low_bytes > 0 && n_columns > 0 && n_columns <= kScreenColumns && taken.only_best();
}

/// Sums and bounds of all rows.
class ScreenLaunch final : public Launch {
 public:
  /// The product's launch is prepared before it.
  ScreenLaunch(const Graph& graph, const MatmulValues& values, const Node& best,
               std::shared_ptr<const Taken> taken, int n_threads);
  /// The step's arguments, once it ran.
  const ScreenArgs& args() const { return args_; }
  const BestLists& best_sums() const { return best_sums_; }
  /// So many panels had to be looked at again. From any thread, while the step runs.
  void count_again(int n_panels) { n_again_.fetch_add(n_panels, std::memory_order_relaxed); }
  std::int64_t weight_columns() const { return weight_columns_; }
  std::int64_t n_columns() const { return n_columns_; }  ///< In this step, once it is prepared ...
  bool runs() const { return screens(*args_.weight, n_columns_, *taken_); }  ///< ... whether it is screened.

  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  bool prepares_each_step() const override { return true; }
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override { return screen_scratch_bytes(weight_columns_); }
  std::size_t held_bytes() const override { return best_sums_.held_bytes() + memory_.size(); }
  std::span<const std::byte> weights_from(std::int32_t task) const override;
  Work work() const override;
  std::string describe(const Graph& graph) const override;

 private:
  MatmulValues values_;
  Dim rows_;
  std::int64_t weight_columns_;
  std::shared_ptr<const Taken> taken_;
  BestLists best_sums_;
  base::Memory memory_;
  ScreenArgs args_;
  std::atomic<std::int64_t> n_again_{0};
  int deep_steps_left_ = 0;
  std::int64_t n_columns_ = 0;  // Of this step.
  std::int64_t panels_per_task_ = 1;
};

/// The products of rows that may be among the best, offered to the lists of `taken`.
class CandidatesLaunch final : public Launch {
 public:
  CandidatesLaunch(const MatmulValues& values, ScreenLaunch& screen, std::shared_ptr<Taken> taken);
  void bind(const Addresses&) override {}  // It reads what `screen` reads.
  std::int32_t prepare(const StepInfo& step) override;
  bool prepares_each_step() const override { return true; }
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  Work work() const override;
  std::string describe(const Graph& graph) const override;

 private:
  /// What the last wanted one of a column's best is at least.
  float least_of(std::int64_t column, const TaskContext& context) const;

  struct alignas(64) OfThread {
    std::uint64_t step = 0;  // The last one in which it had a task.
    float least[kScreenColumns] = {};
    Work work;
  };

  MatmulValues values_;
  ScreenLaunch& screen_;
  const std::shared_ptr<Taken> taken_;
  BestLists& best_;
  MatmulArgs args_;
  std::vector<OfThread> of_threads_;
  std::uint64_t step_ = 0;
};

}  // namespace weft::cpu
