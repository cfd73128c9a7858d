#pragma once
// The inputs and symbols of a step of a context's graph.
//
// An input with one number per row is an entry of a table in step_inputs.cpp, and so is a symbol.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/context/batch_checker.h"
#include "engine/context/input_parts.h"
#include "engine/context/kv_cache.h"
#include "engine/context/ubatch_placer.h"
#include "exec/plan.h"
#include "model/builder.h"

namespace weft::engine {

/// The sizes of a step. Each is a symbol of the graph.
struct StepSizes {
  std::int64_t n_tokens = 0;
  std::int64_t n_wanted = 0;   ///< Rows of which any result is wanted.
  std::int64_t n_outputs = 0;  ///< Rows that the head computes.
  std::int64_t n_embeddings = 0;
  std::int64_t n_logits = 0;  ///< Outputs whose logits are all wanted.
  std::int64_t n_hidden = 0;  ///< Entries of tokens' hidden cells.
  std::int64_t n_source = 0;  ///< Tokens of the encoder input that the step encodes.
  // Uses of adapters: by all tokens, by the wanted ones, by the rows of the head, and by the encoder input.
  std::int64_t n_token_uses = 0;
  std::int64_t n_wanted_uses = 0;
  std::int64_t n_output_uses = 0;
  std::int64_t n_source_uses = 0;
  std::int64_t n_moves = 0;
  std::int64_t n_forks = 0;
};

/// A row of a step: an item of the batch at its place.
struct StepRow {
  const Batch::Item& item;
  kv::SeqPos at;
  std::int32_t cell;
  const KvCache::Impl& cache;
};

class StepInputs {
 public:
  /// `params` are filled in. All arguments must outlive it.
  StepInputs(const model::ModelGraph& graph, const Bindings& bindings, const Model& model,
             const ContextParams& params, KvCache::Impl& cache);

  /// Writes the inputs of the placed items of a batch, and of the memories. `hidden` are the batch's pairs.
  StepSizes bind(const Batch& batch, const UbatchPlacer& placer,
                 std::span<const BatchChecker::HiddenPair> hidden);
  /// Writes the inputs of a step that encodes the encoder input of a sequence.
  StepSizes bind_source(SeqId seq, std::span<const Token> tokens);
  /// Puts the next logged moves under way, and writes their inputs.
  kv::MoveLog::Part begin_moves();
  InputParts& parts() { return parts_; }

  /// A step of these sizes. Valid until the next call.
  exec::Step step(const StepSizes& sizes);
  /// The plan has taken that step.
  void taken() { last_symbols_.assign(symbols_.begin(), symbols_.end()); }
  /// By symbol of the graph: the values of the last step().
  std::span<const std::int64_t> symbols() const { return symbols_; }

 private:
  /// An input with a number for each row.
  struct RowInput {
    std::span<std::int32_t> values;
    std::int32_t (*of)(const StepRow& row);
  };
  template <typename T>
  std::span<T> values(ValueId id) const {
    return host_values<T>(bindings_, id);
  }
  kv::MoveInputs move_inputs(const model::CellInputs& inputs) const;
  void bind_rows(const Batch& batch, const UbatchPlacer& placer);
  void bind_results(const Batch& batch, const Ubatch& ubatch, StepSizes& sizes);
  void bind_adapters(const Batch& batch, const Ubatch& ubatch, StepSizes& sizes);
  /// Writes the cells that tokens must not see, and returns them.
  std::span<const HiddenCells> bind_hidden(const UbatchPlacer& placer,
                                           std::span<const BatchChecker::HiddenPair> hidden);

  const model::ModelGraph& graph_;
  const Bindings& bindings_;
  const model::Adapters* const adapters_;  // Null: the model has none.
  const bool finds_best_;                  // The graph finds the best tokens.
  KvCache::Impl& cache_;
  std::vector<RowInput> rows_;
  InputParts parts_;
  std::vector<std::int64_t> symbols_, last_symbols_;  // The values of this step and of the step before.
};

}  // namespace weft::engine
