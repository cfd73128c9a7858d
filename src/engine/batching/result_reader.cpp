#include "engine/batching/result_reader.h"

#include <algorithm>

#include "base/to_size.h"
#include "weft/not_numbers.h"

namespace weft::engine {

void ResultReader::read(const StepBatch& batch, double decode_ms) {
  if (batch.empty()) return;  // This step was started; no result has been read yet.
  const std::int64_t n_before = counters_.n_generated_tokens;
  unsure_ = true;  // Until all results are read.
  for (const Share& share : batch.shares) read(batch, share);
  unsure_ = false;
  ++counters_.n_steps;
  counters_.cells_peak = std::max(counters_.cells_peak, context_.cache().cells_used());
  pace_.add(batch.size(), batch.n_decoding, decode_ms,
            static_cast<double>(counters_.n_generated_tokens - n_before));
  drafts_.add_step(decode_ms);
  live_.tell_all();
  live_.drop_done();
}

void ResultReader::read(const StepBatch& batch, const Share& share) {
  Stream& stream = *share.stream;
  const int n_computed = stream.cached.n_computed();
  const int n_prompt = stream.origin().source.empty() ? stream.stats.n_prompt : 0;  // A source was counted.
  const int n_before = std::min(stream.cached.n_reached(), n_prompt);
  try {
    for (int i = 0; i < share.n; ++i)
      if (stream.wants_prompt(n_computed + i + 1))
        stream.read_prompt(context_, share.first + i, batch.items[share.first + i].options.n_best > 0);
    for (int i = 0; i < share.n; ++i)
      if (stream.wants_embedding(n_computed + i)) stream.pool(context_.embedding(share.first + i));
  } catch (const NotNumbersError&) {
    return stream.fail_by_exception();
  }
  cache_.computed(stream, share.n);
  if (stream.stats.n_generated == 0)
    counters_.n_prompt_tokens += std::max(std::min(stream.cached.n_computed(), n_prompt) - n_before, 0);
  cache_.leave_snapshot(stream);
  if (stream.n_pending() == 0) {  // Otherwise this was a chunk of a prompt.
    if (stream.params().n_predict == 0 || stream.is_pooled()) {
      live_.end(stream, StopReason::kLength);
    } else {
      draw(batch, share);
    }
  }
  stream.schedule.set_suspect(false);
}

void ResultReader::draw(const StepBatch& batch, const Share& share) {
  Stream& stream = *share.stream;
  const DraftTree& draft = stream.draft.tree();
  int node = DraftTree::kRoot;
  int n_drawn = 0;
  int n_first_guesses = stream.cached.n_computed();  // Length up to which the first guesses were right.
  bool goes_on = true, went_back = false;
  while (true) {
    // The last token's logits are the root's. The logits of the draft's nodes follow in the nodes' order.
    const int item = share.first + share.n + node;
    try {
      goes_on = stream.draw(context_, item, batch.items[item].options.n_best > 0, masks_.mask(stream, node));
    } catch (...) {
      // The failure concerns this stream's sampler, constraint or logits only.
      return stream.fail_by_exception();
    }
    ++n_drawn;
    ++counters_.n_generated_tokens;
    went_back = stream.n_pending() < 1 && !stream.done();
    const int next = stream.done() || went_back ? DraftTree::kNone : draft.child(node, stream.text().back());
    if (goes_on && !went_back) stream.draft.learn(node, next);
    if (!goes_on || next == DraftTree::kNone) break;
    ++stream.stats.n_accepted;
    ++counters_.n_accepted_tokens;
    const bool was_first = draft.nodes()[to_size(next)].rank == 0;
    if (was_first && n_first_guesses == stream.cached.n_computed()) ++n_first_guesses;
    cache_.computed(stream, 1);
    node = next;
  }
  count_times(stream, n_drawn);
  if (!draft.empty()) {
    stream.stats.n_drafted += draft.size();
    counters_.n_drafted_tokens += draft.size();
    counters_.n_branches += std::ssize(stream.draft.branches()) - 1;
    drafts_.fold(stream, node);
  }
  drafts_.checked(stream, n_first_guesses);
  if (went_back) cache_.go_back(stream);
  if (!goes_on) cache_.retire(stream);
}

void ResultReader::count_times(Stream& stream, int n_drawn) {
  const auto now = Clock::now();
  if (stream.stats.n_generated == n_drawn) {
    counters_.first_token.add(stream.stats.first_token_ms);
    stream.schedule.set_last_token(now);  // Accepted draft tokens arrive with the first token.
    --n_drawn;
  }
  const double ms = ms_between(stream.schedule.last_token(), now);
  for (int i = 0; i < n_drawn; ++i) counters_.between_tokens.add(ms / n_drawn);
  stream.schedule.set_last_token(now);
}

}  // namespace weft::engine
