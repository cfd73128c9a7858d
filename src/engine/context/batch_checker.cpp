#include "engine/context/batch_checker.h"

#include <algorithm>
#include <string>

#include "base/to_size.h"
#include "engine/graph_sizes.h"
#include "engine/refuse.h"

namespace weft::engine {
namespace {

std::string of_item(int i) { return " (item " + std::to_string(i) + " of the batch)"; }

}  // namespace

bool shares_sequence(const Batch& batch, int i, int j) {
  const auto others = batch.shared_with(j);
  return batch[j].seq == batch[i].seq ||
         std::find(others.begin(), others.end(), batch[i].seq) != others.end();
}

BatchChecker::BatchChecker(const Model& model, const ContextParams& params, const KvCache::Impl& cache)
    : model_(model), params_(params), cache_(cache), last_pos_(to_size(params.n_sequences), -1) {}

void BatchChecker::check(const Batch& batch) {
  const kv::Sequences& sequences = cache_.sequences();
  if (batch.size() == 0) refuse("the batch is empty");
  if (batch.size() > sequences.cells_total())
    refuse("the batch has " + std::to_string(batch.size()) + " items, the cache has " +
           std::to_string(sequences.cells_total()) +
           " cells; split the batch, or create the context with a larger n_ctx");
  positions_.clear();
  for (int i = 0; i < batch.size(); ++i) {
    cache_.check_sequence(batch[i].seq);
    for (const SeqId other : batch.shared_with(i)) cache_.check_sequence(other);
  }
  for (int i = 0; i < batch.size(); ++i) {
    last_of(batch[i].seq) = -1;
    for (const SeqId other : batch.shared_with(i)) last_of(other) = -1;
  }
  for (int i = 0; i < batch.size(); ++i) {
    const Batch::Item& item = batch[i];
    check_item(batch, i);
    const Pos last = last_of(item.seq);
    const Pos pos = item.options.pos != kNextPos
                        ? item.options.pos
                        : std::max(last + 1, last < 0 ? sequences.next_pos(item.seq) : 0);
    if (pos < 0 || pos >= cache_.max_pos())
      refuse("position " + std::to_string(pos) + " is outside 0 to " + std::to_string(cache_.max_pos() - 1) +
             of_item(i));
    check_position(item.seq, pos, last, i);
    last_of(item.seq) = pos;
    for (const SeqId other : batch.shared_with(i)) {
      check_position(other, pos, last_of(other), i);
      last_of(other) = pos;
      check_shared(batch, i, other);
    }
    positions_.push_back({item.seq, pos});
  }
  check_hidden(batch);
}

void BatchChecker::check_item(const Batch& batch, int i) const {
  const Batch::Item& item = batch[i];
  const ItemOptions& options = item.options;
  const ModelInfo& info = model_.info();
  if (item.embedding >= 0) {
    if (item.n_embedding != info.n_embd_input)
      refuse("the embedding has " + std::to_string(item.n_embedding) +
             " numbers, but those of this model have " + std::to_string(info.n_embd_input) + of_item(i));
  } else if (item.token < 0 || item.token >= info.n_vocab) {
    refuse("token " + std::to_string(item.token) + " is outside the vocabulary of " +
           std::to_string(info.n_vocab) + of_item(i));
  }
  if (options.n_best > params_.n_best)
    refuse("the " + std::to_string(options.n_best) +
           " best tokens were requested, but the context returns at most " + std::to_string(params_.n_best) +
           of_item(i) + "; request all logits, or create the context with a larger n_best");
  if (options.logit_of != kNoToken && (options.logit_of < 0 || options.logit_of >= info.n_vocab))
    refuse("the logit of token " + std::to_string(options.logit_of) +
           " was requested, but the vocabulary has " + std::to_string(info.n_vocab) + of_item(i));
  for (const Pos axis : options.axes)
    if (axis >= cache_.max_pos())
      refuse("position " + std::to_string(axis) + " of an axis is outside 0 to " +
             std::to_string(cache_.max_pos() - 1) + of_item(i));
  if (options.attend_to > cache_.max_pos())
    refuse("position " + std::to_string(options.attend_to) + " is beyond " +
           std::to_string(cache_.max_pos()) + of_item(i));
}

void BatchChecker::check_position(SeqId seq, Pos pos, Pos last, int item) const {
  cache_.check_intact(seq);
  if (model_.info().reads_source && cache_.sources().size(seq) == 0)
    refuse("sequence " + std::to_string(seq) + " has no encoder input" + of_item(item) +
           "; this model generates from one (Context::set_source)");
  if (pos <= last)
    refuse("position " + std::to_string(pos) + " does not follow the last one of sequence " +
           std::to_string(seq) + of_item(item));
  for (const auto& memory : cache_.memories())
    if (const kv::Refusal why = memory->why_not_take(seq, pos))
      throw Error(ErrorCode::kUnsupported, "position " + std::to_string(pos) + " of sequence " +
                                               std::to_string(seq) + of_item(item) +
                                               " cannot be computed: " + why);
  if (cache_.sequences().holds(seq, pos))
    refuse("position " + std::to_string(pos) + " of sequence " + std::to_string(seq) + " is taken" +
           of_item(item));
}

void BatchChecker::check_shared(const Batch& batch, int i, SeqId other) const {
  const auto check = [&](bool same, const char* what) {
    if (!same)
      refuse("sequences " + std::to_string(batch[i].seq) + " and " + std::to_string(other) +
             " have different " + what + " and cannot share a token" + of_item(i));
  };
  check(cache_.sources().same(batch[i].seq, other), "encoder inputs");
  check(cache_.adapters().same(batch[i].seq, other), "adapters");
}

void BatchChecker::check_hidden(const Batch& batch) {
  hidden_.assign(batch.hidden().begin(), batch.hidden().end());
  if (hidden_.size() > kMaxHidden)
    refuse("at most " + std::to_string(kMaxHidden) + " pairs of items can be hidden, but the batch has " +
           std::to_string(hidden_.size()));
  for (const auto& [item, other] : hidden_)
    if (!shares_sequence(batch, item, other))
      refuse("items " + std::to_string(item) + " and " + std::to_string(other) +
             " of the batch have no common sequence, so they do not attend to each other anyway");
  std::sort(hidden_.begin(), hidden_.end());
}

}  // namespace weft::engine
