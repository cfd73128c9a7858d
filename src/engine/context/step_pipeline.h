#pragma once
// The plan of a context, its steps in flight, and the results of their batches.
//
// A batch is computed in steps. Where steps overlap (exec::Plan::start), several are in flight, and batches
// can be begun before the results of earlier ones are read. Batches end in the order in which they began.
#include <cstdint>
#include <iterator>
#include <list>
#include <span>
#include <vector>

#include "engine/context/batch_results.h"
#include "engine/context/column_totals.h"
#include "engine/context/ubatch_placer.h"
#include "engine/devices/bound_graph.h"
#include "exec/plan.h"
#include "model/builder.h"
#include "weft/context.h"

namespace weft::engine {

/// Used by one thread.
class StepPipeline {
 public:
  /// `params` are filled in. `info`, `graph` and `bound` must outlive it.
  StepPipeline(const ModelInfo& info, const model::ModelGraph& graph, const BoundGraph& bound,
               std::vector<model::ColumnSum> column_sums, const ContextParams& params,
               const CompileOptions& options);

  exec::Plan& plan() { return plan_; }
  const exec::Plan& plan() const { return plan_; }
  const ColumnTotals& column_totals() const { return column_totals_; }
  /// The number of batches that can be in flight.
  int n_at_once() const { return column_totals_.empty() ? plan_.n_at_once() : 1; }

  // --- Steps

  /// Begins a batch, the newest one. With `copies` the batch need not outlive the call. Returns the batch to
  /// compute. Fewer than n_at_once() batches must be in flight.
  const Batch& begin(const Batch& batch, bool copies);
  /// The next step computes these items of the newest batch.
  void expect(const Ubatch& ubatch) { steps_.push_back({&batches_.back(), ubatch}); }
  /// Runs a step; with `overlaps` it only starts it. Returns whether the oldest step in flight is done.
  bool run(const exec::Step& step, bool overlaps);
  /// Reads the results of the oldest step, which is done.
  void read_oldest();
  /// Waits until no step is in flight, and reads all results. Needed before the plan is used for anything
  /// else. If it throws, no batch is in flight any more.
  void drain();
  /// Waits for the oldest batch, and reads its results. Throws like drain().
  void finish_oldest_batch();
  /// Adds the sums of columns of the last step.
  void add_column_sums() { column_totals_.add(plan_, symbols_); }

  // --- Batches

  bool empty() const { return batches_.empty(); }
  bool is_full() const { return std::ssize(batches_) >= n_at_once(); }
  /// Makes the results of the oldest batch, which is complete, the visible ones.
  void show_oldest();
  /// Forgets the newest batch. None of its steps is in flight.
  void drop_newest() noexcept;
  /// Waits until no step is in flight, and forgets all batches.
  void drop_all() noexcept;
  /// The visible results.
  const BatchResults& results() const { return results_; }
  void clear_results() { results_.clear(); }

 private:
  struct BatchInFlight {
    const Batch* batch;  // `copy`, or a batch whose caller waits.
    Batch copy;
    BatchResults results;
  };
  struct StepInFlight {
    BatchInFlight* of = nullptr;
    Ubatch ubatch;
  };
  void finish_oldest();
  /// Moves logits that no caller has seen yet, because the plan's next step may overwrite them.
  void keep_logits();
  void retire(std::list<BatchInFlight>::iterator batch) noexcept;
  const float* output(ValueId value) const;
  void read_logits(BatchInFlight& of, const Ubatch& ubatch) const;
  void read_best(BatchInFlight& of, const Ubatch& ubatch) const;
  void read_log_sums(BatchInFlight& of, const Ubatch& ubatch) const;
  void read_embeddings(BatchInFlight& of, const Ubatch& ubatch) const;

  const ModelInfo& info_;
  const model::ModelGraph& graph_;
  const int n_best_;
  exec::Plan plan_;
  std::list<BatchInFlight> batches_, spare_;  // In flight, the oldest first; and memory for others.
  std::vector<StepInFlight> steps_;           // Whose results are not read yet, the oldest first.
  StepInFlight in_place_;                     // The step whose logits are still in the plan's memory, if any.
  BatchResults results_;
  ColumnTotals column_totals_;
  std::span<const std::int64_t> symbols_;  // Of the last step.
};

}  // namespace weft::engine
