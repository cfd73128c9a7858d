#pragma once
// The parts of a context: bookkeeping, caches, one plan. Its API is in context.cpp; decode.cpp computes
// batches.
#include <atomic>
#include <list>
#include <optional>
#include <utility>

#include "engine/batch_results.h"
#include "engine/column_totals.h"
#include "engine/devices/bound_graph.h"
#include "engine/graph_sizes.h"
#include "engine/memories.h"
#include "engine/model_impl.h"
#include "engine/sequence_adapters.h"
#include "engine/sources.h"
#include "engine/states/states.h"
#include "engine/ubatch_placer.h"
#include "exec/plan.h"
#include "kv/sequences.h"
#include "weft/context.h"

namespace weft {

struct Context::Impl {
  Impl(std::shared_ptr<const Model> model_in, const ContextParams& params_in,
       std::shared_ptr<Workspaces> workspaces_in);

  const model::HParams& hparams() const { return model->impl().description.hparams; }
  int n_extents() const { return engine::extents_of(n_pages); }
  model::GraphSizes sizes() const;

  /// The host's memory of an input or output.
  template <typename T>
  std::span<T> values(ValueId id) const {
    return engine::host_values<T>(bindings, id);
  }

  void check_sequence(SeqId seq) const;
  void check_intact(SeqId seq) const;

  // Computing a batch:
  DecodeStatus decode(const Batch& batch);
  // Overlapping batches (Context::begin):
  int n_at_once() const { return column_totals.empty() ? plan.n_at_once() : 1; }
  DecodeStatus begin(const Batch& batch);
  DecodeStatus finish();
  void drop_begun() noexcept;
  /// Waits until no step is in flight and reads all results. Needed before the plan is used for anything
  /// else.
  void land();
  /// Checks the batch, resolves its positions and passes them to `placer`.
  void check(const Batch& batch);
  /// `leave`: the last step may still be in flight when this returns.
  DecodeStatus compute(const Batch& batch, bool leave);
  /// Tokens of a step, for this batch.
  int ubatch_size(const Batch& batch) const;
  struct Coming;
  /// Begins a batch. With `leave` it keeps a copy of it.
  Coming& add_coming(const Batch& batch, bool leave);
  /// With kCacheFull and kCancelled the batch is left as it is.
  DecodeStatus run_ubatches(Coming& of, bool leave);
  /// The oldest of the started steps is done: reads its results, with logits in place.
  void read_oldest();
  /// The same, once it is done. If it throws, no step is in flight any more.
  void land_oldest();
  /// Moves logits that callers have not seen yet, if the plan's next step may overwrite them.
  void keep_logits();
  /// Makes the results of the oldest batch, which are complete, visible to callers.
  void show();
  /// Recycles the memory of `of` for another batch.
  void retire(std::list<Coming>::iterator of) noexcept;
  /// Whether there was a cancel() since the last call.
  bool take_cancel() noexcept { return cancelled.exchange(false); }
  /// Takes the batch's items back.
  void undo(const Batch& batch);
  /// Announces a batch to the memories.
  void begin_memories(const Batch& batch);
  kv::MoveInputs move_inputs(const model::CellInputs& inputs) const;
  /// Which parts of large inputs the ubatch uses; null: a step without tokens.
  void note_parts(const Batch* batch);
  struct StepSizes {
    std::int64_t n_tokens = 0;
    std::int64_t n_wanted = 0;   ///< Rows of which any result is wanted.
    std::int64_t n_outputs = 0;  ///< Rows that the head computes.
    std::int64_t n_embeddings = 0;
    std::int64_t n_logits = 0;  ///< Outputs whose logits are all wanted.
    std::int64_t n_hidden = 0;  ///< Entries of tokens' hidden cells.
    std::int64_t n_source = 0;  ///< Tokens of the source that the step encodes.
    // Uses of adapters: by all tokens, by the wanted ones, and by the rows of the head.
    std::int64_t n_token_uses = 0;
    std::int64_t n_wanted_uses = 0;
    std::int64_t n_output_uses = 0;
    std::int64_t n_source_uses = 0;  ///< ... and by the source's tokens.
  };
  /// Writes the inputs of a ubatch's items.
  StepSizes bind_ubatch(const Batch& batch);
  /// One step, after the pending moves. Moves that do not fit are executed in steps of their own. `start`:
  /// the step is started and not waited for (exec::Plan::start). Returns whether the oldest step is done. If
  /// it throws, the caller must abandon the moves that were under way.
  bool run_step(const StepSizes& sizes, bool start = false);
  /// The memories follow the moves that an operation on sequences has logged.
  void follow_moves() {
    for (const auto& memory : memories) memory->follow(sequences.moves());
  }
  /// For access to cells outside of steps.
  void carry_out_moves();
  void read_logits(Coming& of, const engine::Ubatch& step) const;
  void read_best(Coming& of, const engine::Ubatch& step) const;
  void read_log_sums(Coming& of, const engine::Ubatch& step) const;
  void read_embeddings(Coming& of, const engine::Ubatch& step) const;
  const engine::LogSumExp& log_sum_of(int item) const;

  bool consistent() const;

  DecodeStatus set_source(SeqId seq, std::span<const Token> tokens);
  /// A step without tokens: pending moves, and the source described by `sizes`.
  void run_without_tokens(const StepSizes& sizes);

  // States of one sequence, or of all.
  void prepare_save(std::optional<SeqId> seq);
  std::vector<std::byte> save(std::optional<SeqId> seq);
  void save_file(const std::filesystem::path& path, std::optional<SeqId> seq);
  bool restore(std::span<const std::byte> bytes, std::optional<SeqId> seq);
  bool restore_file(const std::filesystem::path& path, std::optional<SeqId> seq);

  const std::shared_ptr<const Model> model;
  const ContextParams params;
  const int n_pages;
  std::vector<model::ColumnSum> column_sums;  // The graph's, until they are moved to the totals.
  const model::ModelGraph graph;
  const engine::BoundGraph bound;
  const Bindings& bindings;
  kv::Sequences sequences;
  const engine::Memories memories;
  engine::SequenceAdapters adapters;
  /// By sequence: whether it may have tokens with their own positions on the axes (Batch::stand_at).
  std::vector<bool> on_axes;
  engine::Sources sources;
  engine::UbatchPlacer placer;
  engine::States states;
  const std::shared_ptr<Workspaces> workspaces;  // Shared by contexts that take turns.
  std::atomic<bool> cancelled{false};            // See Context::cancel; the plan's devices check it.
  exec::Plan plan;
  Pos max_pos = 0;

  std::vector<kv::SeqPos> positions;              // Of the batch being checked.
  std::vector<std::pair<int, int>> hidden_pairs;  // In the batch, by the first of each pair.
  std::vector<Pos> last_pos;                      // By sequence: the last position in the batch so far.
  engine::BatchResults results;                   // Of the last batch: visible to callers.
  struct Coming {
    const Batch* batch = nullptr;  // `begun`, or a batch whose caller waits.
    Batch begun;
    engine::BatchResults results;
  };
  std::list<Coming> coming, spare;  // Batches that are computed or were started, the oldest first.
  /// A ubatch and its batch.
  struct Started {
    Coming* of = nullptr;
    engine::Ubatch ubatch;
  };
  std::vector<Started> started;  // Steps whose results are not read yet; the oldest first.
  Started in_place;              // The step whose logits are still in the plan's memory, if any.
  engine::ColumnTotals column_totals;
  std::vector<std::int64_t> symbols;  // The step's, and the previous step's.
  std::vector<std::int64_t> last_symbols;
  std::vector<exec::InputPart> parts;  // Of the step.
  std::vector<std::uint64_t> noted;    // By sequence: the last list of parts that contains it.
  std::uint64_t n_noted = 0;
  double host_seconds = 0.0;
  bool leased = false;  // To a batcher.
};

}  // namespace weft
