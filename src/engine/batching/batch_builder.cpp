#include "engine/batching/batch_builder.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"
#include "engine/batching/service_order.h"
#include "engine/prompt_parts.h"

namespace weft::engine {
namespace {

/// Maximum prompt tokens of a step with complete rows of logits, which take memory.
constexpr int kMaxWholeRows = 64;

}  // namespace

void BatchBuilder::build(StepBatch& batch, std::span<const StreamPtr> running,
                         std::span<const StreamPtr> turn, std::int64_t step, int n_read_by_drafter) {
  batch.clear();
  masks_.clear();
  const Stream* alone = tried_alone(running);
  const Stream* const last_crowded_out = std::exchange(crowded_out_, nullptr);
  if (alone == nullptr)
    for (const StreamPtr& stream : running)
      if (stream.get() == last_crowded_out && goes_on(stream)) alone = last_crowded_out;
  reading_.clear();
  for (const StreamPtr& stream : turn) {
    if (!goes_on(stream) || stream->cached.lacks_source()) continue;
    if (alone != nullptr && stream.get() != alone) continue;
    if (stream->is_prefilling()) {
      reading_.push_back(stream.get());
    } else {
      batch.shares.push_back({stream.get(), batch.size(), 1});
      batch.items.add(stream->text().back(), stream->cached.seq(), of_last(*stream));
    }
  }
  add_drafts(batch);
  batch.n_decoding = batch.size();
  if (batch.n_decoding == 0 || !pace_.wants_plain_step()) add_prompts(batch, step, n_read_by_drafter);
  for (const Share& share : batch.shares)
    if (!share.stream->is_pooled() && share.stream->n_pending() == share.n) masks_.add(*share.stream);
}

/// Drafts are cut to the number of logits rows that the step has.
void BatchBuilder::add_drafts(StepBatch& batch) const {
  const int max_logits = context_.params().n_outputs;
  int n_logits = batch.size();
  for (const Share& share : batch.shares) {
    DraftTree& draft = share.stream->draft.tree();
    draft.cut(max_logits - n_logits);
    n_logits += draft.size();
  }
  if (n_logits == batch.size()) return;
  batch.items.clear();
  for (Share& share : batch.shares) {
    share.first = batch.size();
    drafts_.add(batch.items, *share.stream, of_last(*share.stream));
  }
}

/// Divides the prompt budget by priority, then by the shortest rest, so that a short prompt does not wait for
/// a long one. A part of the budget goes to the stream served longest ago.
void BatchBuilder::add_prompts(StepBatch& batch, std::int64_t step, int n_read_by_drafter) {
  if (reading_.empty()) return;
  const int budget = pace_.prompt_budget(batch.n_decoding, reading_.front()->is_background());
  int left = std::max(budget - n_read_by_drafter, 1);
  std::sort(reading_.begin(), reading_.end(), [](const Stream* a, const Stream* b) {
    return reads_before(*a, a->n_pending(), *b, b->n_pending());
  });
  // Among streams served equally long ago, this takes the one that would come last.
  const Stream* const starved = *std::min_element(
      reading_.rbegin(), reading_.rend(),
      [](const Stream* a, const Stream* b) { return a->schedule.served_at() < b->schedule.served_at(); });
  // Tokens kept for the starved stream. A budget that is too small to divide goes to it as a whole in every
  // kStarvedShare-th step.
  int kept = left >= kStarvedShare ? left / kStarvedShare : step % kStarvedShare == 0 ? left : 0;
  if (reading_.size() == 1) kept = 0;
  int n_whole_rows = 0;
  for (Stream* const stream : reading_) {
    if (stream == starved) kept = 0;
    int n = n_to_compute(*stream, left - kept, n_whole_rows);
    if (n <= 0) continue;
    n = whole_parts(stream->params().parts, stream->cached.n_computed(), n, batch.size(),
                    context_.params().n_ubatch);
    if (n == 0) {
      if (crowded_out_ == nullptr) crowded_out_ = stream;
      continue;
    }
    stream->schedule.serve(step);
    add_prompt(batch, *stream, n);
    left -= n;
    if (n == stream->n_pending()) left = std::min(left, pace_.max_rows_behind(batch.size()) - batch.size());
  }
}

int BatchBuilder::n_to_compute(const Stream& stream, int n_most, int& n_whole_rows) const {
  const int n_computed = stream.cached.n_computed();
  int n = stream.stops.limit(n_computed, stream.n_pending());
  const int max_text = stream.request().max_text;
  if (stream.params().context_shift && n_computed + n > max_text) n = max_text - n_computed;
  n = std::min(n, n_most);
  if (finds_logprobs(stream)) return n;
  for (int i = 0; i < n; ++i)
    if (stream.wants_prompt(n_computed + i + 1) && ++n_whole_rows > kMaxWholeRows) return i;
  return n;
}

void BatchBuilder::add_prompt(StepBatch& batch, Stream& stream, int n) const {
  Batch& items = batch.items;
  const int n_computed = stream.cached.n_computed();
  const bool draws = n == stream.n_pending() && !stream.is_pooled();
  batch.shares.push_back({&stream, items.size(), n});
  const PlacedPrompt text(stream.text(), stream.params().parts, stream.cached.seq(), 0);
  for (int i = 0; i < n; ++i) {
    ItemOptions options;
    if (stream.wants_prompt(n_computed + i + 1)) options = for_prompt(stream, n_computed + i + 1);
    if (draws && i == n - 1) options = for_drawing(stream);
    options.embedding = stream.wants_embedding(n_computed + i);
    text.add(n_computed + i, items, options);
  }
}

// --- Results of the step

/// If the best few tokens suffice, the step need not return logits.
ItemOptions BatchBuilder::for_drawing(const Stream& stream) const {
  const int n = stream.n_best();
  return {.logits = true,
          .n_best = n <= context_.params().n_best ? n : 0,
          .log_sum_exp = stream.params().n_logprobs >= 0};
}

ItemOptions BatchBuilder::of_last(const Stream& stream) const {
  ItemOptions options = for_drawing(stream);
  options.axes = axes_of_token(stream.cached.n_computed(), stream.request().n_skipped);
  return options;
}

/// Whether logprobs can be found without returning all logits.
bool BatchBuilder::finds_logprobs(const Stream& stream) const {
  return std::max(stream.params().n_logprobs, 1) <= context_.params().n_best;
}

ItemOptions BatchBuilder::for_prompt(const Stream& stream, int next) const {
  return {.logits = true,
          .n_best = finds_logprobs(stream) ? std::max(stream.params().n_logprobs, 1) : 0,
          .log_sum_exp = true,
          .logit_of = stream.text()[to_size(next)]};
}

}  // namespace weft::engine
