// One step of a batcher: admission, building the batch, reading the results. Also the handling of a full
// cache and of failed steps.
#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "engine/batching/batcher_impl.h"
#include "engine/batching/what.h"
#include "weft/not_numbers.h"

namespace weft {
namespace {

using engine::Clock;
using engine::DraftTree;
using engine::goes_on;
using engine::ms_between;
using engine::Stream;
using engine::StreamPtr;

/// Steps that may fail one after another before each stream is tried alone.
constexpr int kFailuresTogether = 2;
/// Maximum prompt tokens of a step with complete rows of logits, which take memory.
constexpr int kMaxWholeRows = 64;
/// One part in this many of the prompt budget goes to the stream served longest ago, whatever its priority.
/// So no stream starves.
constexpr int kStarvedShare = 4;

/// Order of service: by priority, then by the fewest tokens left to read.
bool reads_before(const Stream& a, std::int64_t n_a, const Stream& b, std::int64_t n_b) {
  if (a.params().priority != b.params().priority) return a.params().priority > b.params().priority;
  if (n_a != n_b) return n_a < n_b;
  return a.goes_before(b);
}

/// Steps with this stream have failed. It runs alone until a step with it succeeds.
bool is_tried_alone(const StreamPtr& stream) { return stream->is_suspect && goes_on(stream); }

}  // namespace

void Batcher::Impl::compute() {
  const auto start = Clock::now();
  Clock::time_point decode_begin, decode_end;  // Of the last attempt in this step.
  double in_decode = 0.0;
  bool has_failed = false;
  const std::int64_t n_generated = counters.n_generated_tokens, n_drafted = counters.n_drafted_tokens,
                     n_accepted = counters.n_accepted_tokens;
  ++step_number;
  clear_batch();
  concerned = nullptr;
  n_source = 0;
  source_ms = 0.0;
  unsure = false;
  try {
    drop_branches();  // Left over from a failed step.
    land(count_groups() - 1);
    admit();
    check_limits();
    n_groups = count_groups();  // Counts the newly admitted streams, too.
    land(n_groups - 1);
    drafts_allowed = n_groups == 1 && crowded_out == nullptr &&
                     std::none_of(running.begin(), running.end(), is_tried_alone);
    n_read_by_drafter = 0;
    DecodeStatus status = read_sources() ? DecodeStatus::kCacheFull : DecodeStatus::kCancelled;
    while (status == DecodeStatus::kCacheFull) {
      const int n_to_read = n_read_by_drafter == 0 ? pace.prompt_budget(static_cast<int>(running.size())) : 0;
      n_read_by_drafter += drafts.write(running, pace.cost(), drafts_allowed, n_to_read);
      drop_done();
      choose_turn();
      build();
      if (batch.size() == 0 && flights.empty()) break;
      decode_begin = Clock::now();
      masks.start();
      try {
        status = decode();
      } catch (...) {
        masks.wait();
        decode_end = Clock::now();
        throw;
      }
      masks.wait();
      decode_end = Clock::now();
      in_decode = ms_between(decode_begin, decode_end);
      counters.decode_seconds += in_decode / 1e3;
      if (status == DecodeStatus::kOk) read_all(in_decode);
      if (status == DecodeStatus::kCacheFull) {
        drop_branches();
        make_room();
      }
    }
    n_failures = 0;
  } catch (...) {
    has_failed = true;
    failed(engine::what_is_thrown(), unsure || cache.is_broken());
  }
  turn.clear();  // Drops the references to streams that have ended.
  const auto end = Clock::now();
  const double ms = ms_between(start, end);
  in_decode += source_ms;
  counters.decode_seconds += source_ms / 1e3;
  counters.host_seconds += (ms - in_decode) / 1e3;
  counters.step.add(ms);
  if (!params.on_step || (batch.size() + n_source == 0 && !has_failed)) return;
  if (decode_begin == Clock::time_point{}) decode_begin = decode_end = end;
  tell_step({.begin = start,
             .end = end,
             .host_before_ms = ms_between(start, decode_begin) - source_ms,
             .decode_ms = ms_between(decode_begin, decode_end) + source_ms,
             .host_after_ms = ms_between(decode_end, end),
             .n_streams = static_cast<int>(shares.size()),
             .n_rows = batch.size() + n_source,
             .n_prompt = (batch.size() > 0 ? batch.size() - n_decoding : 0) + n_source,
             .n_generated = static_cast<int>(counters.n_generated_tokens - n_generated),
             .n_drafted = static_cast<int>(counters.n_drafted_tokens - n_drafted),
             .n_accepted = static_cast<int>(counters.n_accepted_tokens - n_accepted),
             .failed = has_failed});
}

void Batcher::Impl::tell_step(const StepRecord& record) const noexcept {
  try {
    params.on_step(record);
  } catch (...) {  // A throwing callback must not affect other streams.
  }
}

void Batcher::Impl::admit() {
  const auto now = Clock::now();
  for (std::size_t i = running.size(); i-- > 0;)
    if (running[i]->paused && ms_between(*running[i]->paused, now) >= params.max_pause_ms)
      preempt(running[i]);
  while (true) {
    const std::size_t n_before = running.size();
    const bool any_failed = admission.admit(running);
    note_admissions(n_before, now);
    if (any_failed) drop_done_waiting();
    if (running.empty() || std::any_of(running.begin(), running.end(), goes_on)) return;
    // All running streams are paused. A waiting one may need their room.
    if (!admission.any_of(goes_on) || !preempt_youngest(nullptr)) return;
  }
}

void Batcher::Impl::note_admissions(std::size_t n_before, Clock::time_point now) {
  const auto n_new = static_cast<double>(running.size() - n_before);
  for (std::size_t i = n_before; i < running.size(); ++i) {
    Stream& stream = *running[i];
    stream.served_at = step_number;
    if (stream.stats.queue_ms > 0.0) continue;  // It was admitted before.
    stream.stats.queue_ms = std::max(ms_between(stream.request().submitted, now), 1e-6);
    counters.queue.add(stream.stats.queue_ms);
  }
  if (n_new > 0.0) {
    double& mean = counters.ms_per_admission;
    if (last_admission) {
      const double ms = ms_between(*last_admission, now) / n_new;
      mean = mean == 0.0 ? ms : 0.9 * mean + 0.1 * ms;
    }
    last_admission = now;
  }
  if (admission.n_waiting() == 0) last_admission.reset();  // Idle time does not count as waiting.
}

void Batcher::Impl::check_limits() {
  std::vector<StreamPtr> full;
  for (const StreamPtr& stream : running)
    if (goes_on(stream) && static_cast<int>(stream->text.size()) > stream->request().max_text)
      full.push_back(stream);
  if (!full.empty()) land();  // Making room may preempt other streams.
  for (const StreamPtr& stream : full) {
    if (stream->seq < 0) continue;  // It was preempted for an earlier stream.
    // A stream that is recomputed shifts where it did before: when only its last token is missing.
    if (stream->params().context_shift && stream->is_prefilling()) continue;
    const auto make_room_for_it = [&] { return cache.evict() || preempt_youngest(stream.get()); };
    if (!cache.forget(*stream, make_room_for_it)) end(*stream, StopReason::kContextFull);
  }
  if (!full.empty()) drop_done();
}

bool Batcher::Impl::read_sources() {
  const auto alone = std::ranges::find_if(running, is_tried_alone);
  reading.clear();
  int n_writing = 0;
  for (const StreamPtr& stream : running) {
    if (!goes_on(stream) || (alone != running.end() && stream != *alone)) continue;
    if (stream->lacks_source) {
      reading.push_back(stream.get());
    } else {
      ++n_writing;
    }
  }
  if (reading.empty()) return true;
  const auto size_of = [](const Stream* stream) { return std::ssize(stream->origin().source); };
  std::ranges::sort(reading, [&](const Stream* a, const Stream* b) {
    return reads_before(*a, size_of(a), *b, size_of(b));
  });
  // Every kStarvedShare-th step begins with the stream served longest ago.
  const auto oldest = std::ranges::min_element(reading, {}, &Stream::served_at);
  if (step_number % kStarvedShare == 0) std::rotate(reading.begin(), oldest, oldest + 1);
  const int budget = pace.prompt_budget(n_writing);
  for (Stream* const stream : reading) {
    const auto size = static_cast<int>(size_of(stream));
    if (n_source > 0 && n_source + size > budget) continue;
    concerned = *std::ranges::find(running, stream, &StreamPtr::get);
    const auto begin = Clock::now();
    const engine::SourceRead read = cache.read_source(*stream);
    if (read == engine::SourceRead::kCancelled) return false;
    concerned = nullptr;
    stream->served_at = step_number;
    if (read == engine::SourceRead::kShared) continue;
    const double ms = ms_between(begin, Clock::now());
    n_source += size;
    source_ms += ms;
    pace.add_source(size, ms);
  }
  return true;
}

void Batcher::Impl::drop_branches() {
  for (const StreamPtr& stream : running) cache.drop_branches(*stream);
}

// --- The batch

/// Decoding streams with their drafts come first, then as many prompt tokens as the step's time allows.
void Batcher::Impl::build() {
  clear_batch();
  masks.clear();
  auto alone = std::find_if(running.begin(), running.end(), is_tried_alone);
  const Stream* const last_crowded_out = std::exchange(crowded_out, nullptr);
  if (alone == running.end())
    alone = std::find_if(running.begin(), running.end(), [&](const StreamPtr& stream) {
      return stream.get() == last_crowded_out && goes_on(stream);
    });
  const auto takes_part = [&](const StreamPtr& stream) {
    return goes_on(stream) && !stream->lacks_source && (alone == running.end() || stream == *alone);
  };
  int n_logits = 0;
  for (const StreamPtr& stream : turn) {
    if (!takes_part(stream) || stream->is_prefilling()) continue;
    shares.push_back({stream.get(), batch.size(), 1});
    engine::add_token(batch, stream->text.back(), stream->seq, true, stream->n_computed,
                      stream->request().n_skipped);
    ++n_logits;
  }
  // Drafts are cut to the number of logits rows that the step has.
  const int max_logits = context.params().n_outputs;
  for (Share& share : shares) {
    DraftTree& draft = share.stream->draft;
    draft.cut(max_logits - n_logits);
    n_logits += draft.size();
  }
  if (n_logits > batch.size()) {
    batch.clear();
    for (Share& share : shares) {
      share.first = batch.size();
      drafts.add(batch, *share.stream);
    }
  }
  n_decoding = batch.size();
  reading.clear();
  for (const StreamPtr& stream : turn)
    if (takes_part(stream) && stream->is_prefilling()) reading.push_back(stream.get());
  if (n_decoding == 0 || !pace.wants_plain_step()) add_prompts();
  for (const Share& share : shares) {
    if (share.stream->is_pooled()) continue;
    ask_for_best(share);
    if (share.stream->n_pending() == share.n) masks.add(*share.stream);
  }
}

/// Divides the prompt budget by priority, then by the shortest rest, so that a short prompt does not wait for
/// a long one. A part of the budget goes to the stream served longest ago.
void Batcher::Impl::add_prompts() {
  if (reading.empty()) return;
  const int budget = pace.prompt_budget(n_decoding);
  int left = std::max(budget - n_read_by_drafter, 1);
  std::sort(reading.begin(), reading.end(), [](const Stream* a, const Stream* b) {
    return reads_before(*a, a->n_pending(), *b, b->n_pending());
  });
  // Among streams served equally long ago, this takes the one that would come last.
  const Stream* const starved =
      *std::min_element(reading.rbegin(), reading.rend(),
                        [](const Stream* a, const Stream* b) { return a->served_at < b->served_at; });
  // Tokens kept for the starved stream. A budget that is too small to divide goes to it as a whole in every
  // kStarvedShare-th step.
  int kept = left >= kStarvedShare ? left / kStarvedShare : step_number % kStarvedShare == 0 ? left : 0;
  if (reading.size() == 1) kept = 0;
  int n_whole_rows = 0;
  for (Stream* stream : reading) {
    int n = stream->n_pending();
    if (stream->pause_at > stream->n_computed) n = std::min(n, stream->pause_at - stream->n_computed);
    const int max_text = stream->request().max_text;
    if (stream->params().context_shift && stream->n_computed + n > max_text)
      n = max_text - stream->n_computed;
    if (stream == starved) kept = 0;
    n = std::min(n, left - kept);
    const auto is_told = [&](int i) { return stream->wants_prompt(stream->n_computed + i + 1); };
    if (!finds_logprobs(*stream))
      for (int i = 0; i < n; ++i)
        if (is_told(i) && ++n_whole_rows > kMaxWholeRows) n = i;
    if (n <= 0) continue;
    const std::span<const EmbeddedPart> parts = stream->params().parts;
    n = engine::whole_parts(parts, stream->n_computed, n, batch.size(), context.params().n_ubatch);
    if (n == 0) {
      if (crowded_out == nullptr) crowded_out = stream;
      continue;
    }
    stream->served_at = step_number;
    const bool ends = n == stream->n_pending();
    shares.push_back({stream, batch.size(), n});
    const engine::PlacedPrompt text(stream->text, parts, stream->seq, 0);
    for (int i = 0; i < n; ++i) {
      text.add(stream->n_computed + i, batch, is_told(i) || (ends && i == n - 1 && !stream->is_pooled()));
      if (is_told(i)) ask_for_prompt(*stream, batch.size() - 1, stream->n_computed + i + 1);
      if (stream->wants_embedding(stream->n_computed + i)) batch.want_embedding(batch.size() - 1);
    }
    left -= n;
    if (ends) left = std::min(left, pace.max_rows_behind(batch.size()) - batch.size());
  }
}

/// If the best few tokens suffice, the step need not return logits.
void Batcher::Impl::ask_for_best(const Share& share) {
  const Stream& stream = *share.stream;
  if (stream.n_pending() != share.n) return;  // A chunk of a prompt, not its end.
  const int n = stream.n_best();
  const int last = share.first + share.n - 1;
  for (int item = last; item <= last + stream.draft.size(); ++item) {
    if (n > 0 && n <= context.params().n_best) batch.only_best(item, n);
    if (stream.params().n_logprobs >= 0) batch.want_log_sum_exp(item);
  }
}

/// Whether logprobs can be found without returning all logits.
bool Batcher::Impl::finds_logprobs(const Stream& stream) const {
  return std::max(stream.params().n_logprobs, 1) <= context.params().n_best;
}

void Batcher::Impl::ask_for_prompt(const Stream& stream, int item, int next) {
  if (finds_logprobs(stream)) batch.only_best(item, std::max(stream.params().n_logprobs, 1));
  batch.want_log_sum_exp(item, stream.text[static_cast<std::size_t>(next)]);
}

// --- Results

void Batcher::Impl::read_all(double decode_ms) {
  if (batch.size() == 0) return;  // This step was started; no result has been read yet.
  const std::int64_t n_before = counters.n_generated_tokens;
  unsure = true;  // Until all results are read.
  for (const Share& share : shares) read(share);
  unsure = false;
  ++counters.n_steps;
  counters.cells_peak = std::max(counters.cells_peak, context.cells_used());
  pace.add(batch.size(), n_decoding, decode_ms, static_cast<double>(counters.n_generated_tokens - n_before));
  drafts.add_step(decode_ms);
  for (const StreamPtr& stream : running) tell(stream);
  drop_done();
}

void Batcher::Impl::read(const Share& share) {
  Stream& stream = *share.stream;
  const int n_prompt = stream.origin().source.empty() ? stream.stats.n_prompt : 0;  // A source was counted.
  const int n_before = std::min(std::max(stream.n_computed, stream.n_reached), n_prompt);
  try {
    for (int i = 0; i < share.n; ++i)
      if (stream.wants_prompt(stream.n_computed + i + 1))
        stream.read_prompt(context, share.first + i, batch[share.first + i].n_best > 0);
    for (int i = 0; i < share.n; ++i)
      if (stream.wants_embedding(stream.n_computed + i)) stream.pool(context.embedding(share.first + i));
  } catch (const NotNumbersError&) {
    return stream.fail_by_exception();
  }
  cache.computed(stream, share.n);
  if (stream.stats.n_generated == 0)
    counters.n_prompt_tokens += std::max(std::min(stream.n_computed, n_prompt) - n_before, 0);
  cache.leave_snapshot(stream);
  if (stream.n_pending() == 0) {  // Otherwise this was a chunk of a prompt.
    if (stream.params().n_predict == 0 || stream.is_pooled()) {
      end(stream, StopReason::kLength);
    } else {
      draw(share);
    }
  }
  stream.is_suspect = false;
}

/// Draws a stream's tokens from the step's logits: one, and one more for each accepted draft token.
void Batcher::Impl::draw(const Share& share) {
  Stream& stream = *share.stream;
  int node = DraftTree::kRoot;
  int n_drawn = 0;
  int n_first_guesses = stream.n_computed;  // Length up to which the first guesses were right.
  bool goes_on = true;
  while (true) {
    // The last token's logits are the root's. The logits of the draft's nodes follow in the nodes' order.
    const int item = share.first + share.n + node;
    try {
      goes_on = stream.draw(context, item, batch[item].n_best > 0, masks.mask(stream, node));
    } catch (...) {
      // The failure concerns this stream's sampler, constraint or logits only.
      return stream.fail_by_exception();
    }
    ++n_drawn;
    ++counters.n_generated_tokens;
    const int next = stream.done() ? DraftTree::kNone : stream.draft.child(node, stream.text.back());
    if (goes_on) engine::Drafts::learn(stream, node, next);
    if (!goes_on || next == DraftTree::kNone) break;
    ++stream.stats.n_accepted;
    ++counters.n_accepted_tokens;
    const bool was_first = stream.draft.nodes()[static_cast<std::size_t>(next)].rank == 0;
    if (was_first && n_first_guesses == stream.n_computed) ++n_first_guesses;
    cache.computed(stream, 1);
    node = next;
  }
  const auto now = Clock::now();
  if (stream.stats.n_generated == n_drawn) {
    counters.first_token.add(stream.stats.first_token_ms);
    stream.last_token = now;  // Accepted draft tokens arrive with the first token.
    --n_drawn;
  }
  for (int i = 0; i < n_drawn; ++i) counters.between_tokens.add(ms_between(stream.last_token, now) / n_drawn);
  stream.last_token = now;
  if (!stream.draft.empty()) {
    stream.stats.n_drafted += stream.draft.size();
    counters.n_drafted_tokens += stream.draft.size();
    counters.n_branches += static_cast<std::int64_t>(stream.branches.size()) - 1;
    drafts.fold(stream, node);
  }
  drafts.checked(stream, n_first_guesses);
  if (!goes_on) cache.retire(stream);
}

// --- When the cache is full

/// Evicts idle sequences first, then drops the drafts of this step. After that it preempts paused streams,
/// then the youngest running one. The last remaining stream shifts its context, or ends.
void Batcher::Impl::make_room() {
  if (cache.evict()) return;
  if (std::exchange(drafts_allowed, false)) return;
  if (running.size() > 1) {
    preempt_youngest(nullptr);
    return;
  }
  Stream& last = *running.front();
  if (!cache.forget(last, {})) end(last, StopReason::kContextFull);
  drop_done();
}

void Batcher::Impl::preempt(const StreamPtr& stream) {
  concerned = stream;
  if (stream->shifted) stream->saved = context.save(stream->seq);
  ++stream->stats.n_preempted;
  ++counters.n_preempted;
  wait_again(concerned);
  concerned = nullptr;
}

void Batcher::Impl::wait_again(const StreamPtr& stream) {
  cache.release(*stream);
  stream->n_computed = 0;
  running.erase(std::find(running.begin(), running.end(), stream));
  admission.wait_again(stream);
}

bool Batcher::Impl::preempt_youngest(const Stream* except) {
  const auto goes_later = [&](const StreamPtr& a, const StreamPtr& b) {
    if ((a.get() == except) != (b.get() == except)) return b.get() == except;
    if (a->paused.has_value() != b->paused.has_value()) return a->paused.has_value();
    return b->goes_before(*a);
  };
  const auto last = std::min_element(running.begin(), running.end(), goes_later);
  if (last == running.end() || last->get() == except) return false;
  preempt(*last);
  return true;
}

// --- When a step fails

void Batcher::Impl::failed(std::string_view why, bool cache_is_unsure) noexcept {
  ++counters.n_failed_steps;
  for (const StreamPtr& stream : running) tell(stream);  // Tokens drawn before the failure are valid.
  if (suspend_if_lost(why)) return;
  ++n_failures;
  if (n_failures >= kFailuresTogether) blame(why);
  recover(why, cache_is_unsure);
}

void Batcher::Impl::recover(std::string_view why, bool cache_is_unsure) noexcept {
  try {
    if (!cache_is_unsure) return give_up_unsound(why);
  } catch (const std::exception&) {  // Everything is recomputed then.
  }
  rebuild(why);
}

/// Repeated failures: if only one stream took part in the step, it fails. Otherwise all streams of the step
/// run alone from now on.
void Batcher::Impl::blame(std::string_view why) noexcept {
  if (shares.size() == 1 && flights.empty()) return shares.front().stream->fail(why);
  for (const Share& share : shares) share.stream->is_suspect = true;
  for (const Flight& flight : flights)
    for (const Share& share : flight.shares)
      if (share.stream != nullptr) share.stream->is_suspect = true;
  if (!shares.empty() || !flights.empty()) return;
  StreamPtr stream = concerned != nullptr ? concerned : admission.concerned();
  if (stream == nullptr && !running.empty()) stream = running.front();
  if (stream != nullptr) stream->fail(why);
}

/// The failed step may have left its cell moves half done. The sequences concerned are computed again.
void Batcher::Impl::give_up_unsound(std::string_view why) {
  drop_branches();
  drop_flights();
  for (std::size_t i = running.size(); i-- > 0;) {
    if (take_back(*running[i]) && context.intact(running[i]->seq)) continue;
    if (running[i]->shifted) {
      running[i]->fail(why);  // A shifted stream has dropped tokens and cannot be recomputed.
    } else {
      const StreamPtr stream = running[i];
      wait_again(stream);
    }
  }
  cache.evict_unsound();
  drop_done();
  drop_done_waiting();
}

void Batcher::Impl::rebuild(std::string_view why) noexcept {
  ++counters.n_rebuilt;
  drop_flights();
  const auto give_up = [&](const StreamPtr& stream) {
    stream->seq = -1;
    stream->n_in_flight = 0;
    stream->branches.clear();
    stream->draft.clear();
    stream->n_computed = 0;
  };
  for (const StreamPtr& stream : running) {
    give_up(stream);
    // A shifted stream has dropped tokens and cannot be recomputed.
    if (stream->shifted) stream->fail(why);
  }
  admission.for_each(give_up);
  try {
    cache.reset();
  } catch (const std::exception& error) {
    for (const StreamPtr& stream : running) stream->fail(error.what());
    admission.for_each([&](const StreamPtr& stream) { stream->fail(error.what()); });
  }
  drop_done();
  drop_done_waiting();
  while (!running.empty()) {
    admission.wait_again(running.back());
    running.pop_back();
  }
}

}  // namespace weft
