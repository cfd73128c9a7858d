#pragma once
// A context: the parts that compute batches, and the order in which they work. Its API is in context.cpp.
//
// A batch is checked (BatchChecker) and divided into ubatches, which take cells of the cache (UbatchPlacer,
// KvCache::Impl). For each one the inputs are written (StepInputs), a step of the plan runs, and its results
// are read (StepPipeline).
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/context/batch_checker.h"
#include "engine/context/kv_cache.h"
#include "engine/context/step_inputs.h"
#include "engine/context/step_pipeline.h"
#include "engine/context/ubatch_placer.h"
#include "engine/devices/bound_graph.h"
#include "engine/model_impl.h"
#include "engine/states/states.h"
#include "weft/context.h"

namespace weft {

struct Context::Impl {
  Impl(std::shared_ptr<const Model> model_in, const ContextParams& params_in,
       std::shared_ptr<Workspaces> workspaces_in);

  const model::HParams& hparams() const { return model->impl().description.hparams; }

  // --- Batches (decode.cpp)

  DecodeStatus decode(const Batch& batch);
  // Overlapping batches (Context::begin):
  DecodeStatus begin(const Batch& batch);
  DecodeStatus finish();
  DecodeStatus set_source(SeqId seq, std::span<const Token> tokens);
  /// Whether there was a cancel() since the last call.
  bool take_cancel() noexcept { return cancelled.exchange(false); }

  // --- States (context.cpp)

  void prepare_save(std::optional<SeqId> seq);
  std::vector<std::byte> save(std::optional<SeqId> seq, Pos begin = 0, Pos end = kv::kEndOfPositions);
  void save_file(const std::filesystem::path& path, std::optional<SeqId> seq);
  bool restore(std::span<const std::byte> bytes, std::optional<SeqId> seq);
  bool restore_file(const std::filesystem::path& path, std::optional<SeqId> seq);
  PlanStats plan_stats() const;

  const std::shared_ptr<const Model> model;
  const ContextParams params;
  std::vector<model::ColumnSum> column_sums;  // The graph's, until they are moved to the pipeline.
  const model::ModelGraph graph;
  const engine::BoundGraph bound;
  KvCache::Impl cache;
  engine::BatchChecker checker;
  engine::UbatchPlacer placer;
  engine::StepInputs inputs;
  engine::States states;
  KvCache public_cache{cache, states};
  const std::shared_ptr<Workspaces> workspaces;  // Shared by contexts that take turns.
  std::atomic<bool> cancelled{false};            // See Context::cancel; the plan's devices check it.
  engine::StepPipeline pipeline;
  double host_seconds = 0.0;
  bool leased = false;  // To a batcher.

 private:
  model::GraphSizes sizes() const;
  /// `leave`: the last step may still be in flight when this returns.
  DecodeStatus compute(const Batch& batch, bool leave);
  /// Checks the batch, and passes its positions to `placer`.
  void check(const Batch& batch);
  /// Tokens of a step, for this batch.
  int ubatch_size(const Batch& batch) const;
  /// Announces a batch to the memories.
  void begin_memories(const Batch& batch);
  /// With kCacheFull and kCancelled the batch is left as it is.
  DecodeStatus run_ubatches(const Batch& batch, bool leave);
  /// One step, after the pending moves. Moves that do not fit are executed in steps of their own. Returns
  /// whether the oldest step in flight is done. If it throws, the caller must abandon the moves that were
  /// under way.
  bool run_step(const engine::StepSizes& sizes, bool overlaps);
  /// A step without tokens: pending moves, and the encoder input described by `sizes`.
  void run_without_tokens(const engine::StepSizes& sizes);
  /// For access to cells outside of steps.
  void carry_out_moves();
  void note_parts(const Batch* batch);
  /// Takes the batch's items back.
  void undo(const Batch& batch);
};

}  // namespace weft
