#include "engine/context/step_pipeline.h"

#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/to_size.h"
#include "engine/sampling/log_sum_exp.h"

namespace weft::engine {

StepPipeline::StepPipeline(const ModelInfo& info, const model::ModelGraph& graph, const BoundGraph& bound,
                           std::vector<model::ColumnSum> column_sums, const ContextParams& params,
                           const CompileOptions& options)
    : info_(info),
      graph_(graph),
      n_best_(params.n_best),
      plan_(bound.compile(graph.graph, options)),
      results_(info, params.n_outputs, params.n_best),
      column_totals_(graph.graph, std::move(column_sums)) {
  steps_.reserve(to_size(plan_.n_at_once()));
  for (int i = 0; i < plan_.n_at_once(); ++i)
    spare_.push_back({nullptr, {}, BatchResults(info, params.n_outputs, params.n_best)});
}

const Batch& StepPipeline::begin(const Batch& batch, bool copies) {
  WEFT_CHECK(!spare_.empty());
  BatchInFlight& of = spare_.front();
  of.results.begin(batch.size());
  if (copies) of.copy = batch;
  of.batch = copies ? &of.copy : &batch;
  batches_.splice(batches_.end(), spare_, spare_.begin());
  return *of.batch;
}

bool StepPipeline::run(const exec::Step& step, bool overlaps) {
  keep_logits();
  symbols_ = step.symbols;
  if (overlaps) return plan_.start(step);
  plan_.run(step);
  return true;
}

void StepPipeline::read_oldest() {
  in_place_ = steps_.front();
  steps_.erase(steps_.begin());
  const auto [of, ubatch] = in_place_;
  read_embeddings(*of, ubatch);
  read_logits(*of, ubatch);
  add_column_sums();
  if (n_best_ == 0) return;
  read_best(*of, ubatch);
  read_log_sums(*of, ubatch);
}

void StepPipeline::finish_oldest() {
  try {
    keep_logits();
    plan_.finish_oldest();
    read_oldest();
  } catch (...) {
    drop_all();
    throw;
  }
}

void StepPipeline::drain() {
  while (!steps_.empty()) finish_oldest();
}

void StepPipeline::finish_oldest_batch() {
  while (!steps_.empty() && steps_.front().of == &batches_.front()) finish_oldest();
}

void StepPipeline::show_oldest() {
  std::swap(results_, batches_.front().results);
  retire(batches_.begin());
}

void StepPipeline::drop_newest() noexcept { retire(std::prev(batches_.end())); }

void StepPipeline::drop_all() noexcept {
  try {
    plan_.finish();
  } catch (...) {  // No caller waits for this failure.
  }
  steps_.clear();
  in_place_ = {};
  spare_.splice(spare_.begin(), batches_);
}

void StepPipeline::retire(std::list<BatchInFlight>::iterator batch) noexcept {
  if (in_place_.of == &*batch) in_place_ = {};
  spare_.splice(spare_.begin(), batches_, batch);
}

void StepPipeline::keep_logits() {
  const auto [of, ubatch] = std::exchange(in_place_, {});
  if (of == nullptr) return;
  for (int i = ubatch.begin; i < ubatch.end; ++i) of->results.keep_logits(i);
}

const float* StepPipeline::output(ValueId value) const {
  return reinterpret_cast<const float*>(plan_.output(value).host().data());
}

void StepPipeline::read_embeddings(BatchInFlight& of, const Ubatch& ubatch) const {
  const float* row = output(graph_.row_embeddings);
  for (int i = ubatch.begin; i < ubatch.end; ++i) {
    if (!(*of.batch)[i].options.embedding) continue;
    of.results.add_embedding(i, row);
    row += info_.n_embd;
  }
}

void StepPipeline::read_logits(BatchInFlight& of, const Ubatch& ubatch) const {
  const auto n_vocab = to_size(info_.n_vocab);
  const float* row = output(graph_.logits);
  for (int i = ubatch.begin; i < ubatch.end; ++i) {
    const ItemOptions& item = (*of.batch)[i].options;
    if (!item.logits || item.n_best > 0) continue;
    of.results.set_logits(i, row);
    if (n_best_ == 0 && item.log_sum_exp)  // The graph does not compute it.
      of.results.set_log_sum(i, log_sum_exp({row, n_vocab}, item.logit_of));
    row += n_vocab;
  }
}

void StepPipeline::read_log_sums(BatchInFlight& of, const Ubatch& ubatch) const {
  const float* row = output(graph_.log_sums);
  for (int i = ubatch.begin; i < ubatch.end; ++i) {
    const ItemOptions& item = (*of.batch)[i].options;
    if (!item.logits) continue;
    const float* const pair = std::exchange(row, row + 2);
    if (item.log_sum_exp) of.results.set_log_sum(i, {pair[0], item.logit_of, pair[1]});
  }
}

void StepPipeline::read_best(BatchInFlight& of, const Ubatch& ubatch) const {
  const auto width = to_size(n_best_);
  const float* row = output(graph_.best);
  for (int i = ubatch.begin; i < ubatch.end; ++i) {
    const ItemOptions& item = (*of.batch)[i].options;
    if (!item.logits) continue;
    const float* value = std::exchange(row, row + 2 * width);
    if (item.n_best > 0)
      for (Best& one : of.results.add_best(i, item.n_best))
        one = {static_cast<Token>(value[width]), *value}, ++value;
  }
}

}  // namespace weft::engine
