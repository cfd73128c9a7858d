#include "engine/batching/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"
#include "engine/forget.h"

namespace weft::engine {
namespace {

/// The prefill pauses for a snapshot of at least this many tokens.
constexpr int kMinPause = 64;

int max_snapshots(const Context& context, const BatcherParams& params) {
  const std::int64_t each = context.cache().snapshot_bytes();
  if (context.cache().cuts_anywhere() || !params.reuse_prefixes) return 0;
  const std::int64_t n_in_bytes = each > 0 ? params.snapshot_bytes / each : params.n_snapshots;
  return static_cast<int>(
      std::min<std::int64_t>({params.n_snapshots, n_in_bytes, context.params().n_sequences / 2}));
}

std::span<const Token> first(const std::vector<Token>& text, int n) {
  return std::span(text).first(to_size(n));
}

}  // namespace

PrefixCache::PrefixCache(Context& context, Drafter* drafter, const BatcherParams& params,
                         BatcherStats& counters)
    : context_(context),
      drafter_(drafter),
      reuse_prefixes_(params.reuse_prefixes),
      cuts_anywhere_(context.cache().cuts_anywhere()),
      max_snapshots_(max_snapshots(context, params)),
      counters_(counters),
      index_(context.params().n_sequences),
      n_stored_(to_size(context.params().n_sequences), 0),
      is_snapshot_(to_size(context.params().n_sequences), false) {
  const CacheTiers& tiers = params.tiers;
  if (reuse_prefixes_ && (tiers.ram_bytes != 0 || !tiers.disk.empty()) &&
      !context.model().info().reads_source)
    tiers_ = std::make_unique<PrefixTiers>(context, tiers);
  reset();
  idle_.reserve(free_.size());
}

PrefixCache::~PrefixCache() {
  try {
    if (tiers_ != nullptr && tiers_->has_files()) store_all();
  } catch (const std::exception&) {  // A device has failed: these sequences are lost.
  }
  try {
    context_.cache().clear();
  } catch (const Error&) {  // The context was moved from.
  }
}

void PrefixCache::reset() {
  context_.cache().clear();
  broken_ = false;
  idle_.clear();
  free_.clear();
  index_.clear();
  if (drafter_ != nullptr) drafter_->reset();
  for (SeqId seq = context_.params().n_sequences; seq-- > 0;) {
    is_snapshot(seq) = false;
    free_.push_back(seq);
  }
}

// --- A stream comes and goes

PrefixCache::Match PrefixCache::look_up(const Stream& stream) const {
  if (!shares(stream) || !stream.reuses_prefix()) return {};
  return find(stream.all_but_last(), stream.origin());
}

PrefixCache::Match PrefixCache::find(std::span<const Token> text, const TextOrigin& origin) const {
  const Match match =
      cuts_anywhere_ ? index_.find(text, origin) : index_.find(text, origin, [&](SeqId holder, int n) {
        return context_.cache().can_cut(holder, n);
      });
  if (match.holder >= 0 || origin.source.empty()) return match;
  return {index_.find_any(origin), 0};
}

bool PrefixCache::make_room(std::int64_t n_needed, const Match& match, std::span<const StreamPtr> running,
                            std::optional<int>& n_cached) {
  const auto n_missing = [&] {
    return context_.cache().cells_used() + n_needed - context_.cache().cells_total();
  };
  if (n_missing() <= 0) return true;
  if (!n_cached) n_cached = cells_cached(running);
  if (n_missing() > *n_cached) return false;
  n_cached.reset();
  while (context_.cache().cells_used() + n_needed > context_.cache().cells_total())
    if (!evict(match.holder) && !shorten(match)) return false;
  return true;
}

void PrefixCache::settle(Stream& stream, Match match) {
  broken_ = true;
  stream.stops.set_snapshots(snapshots_on_the_way(stream, match));
  touch_snapshots(stream);
  // The stream takes over the idle sequence if it matches as a whole, or if there is no other sequence to be
  // had.
  const bool take_over = match.holder >= 0 && is_idle(match.holder) &&
                         ((match.n == index_.size(match.holder) && !is_snapshot(match.holder)) ||
                          (free_.empty() && idle_.size() == 1));
  if (take_over) {
    const bool is_whole = match.n == index_.size(match.holder);
    if (!is_whole) store_last(match.holder);
    std::erase(idle_, match.holder);
    stream.cached.take_sequence(match.holder);
    is_snapshot(match.holder) = false;
    index_.remove(match.holder);
    if (match.n > 0 || !is_whole) cut(match.holder, match.n);  // A sequence of only a source stays as it is.
    if (match.n == 0) context_.set_adapters(stream.cached.seq(), stream.origin().adapters);
  } else {
    if (match.holder >= 0 && is_idle(match.holder)) touch(match.holder);
    if (free_.empty()) evict(match.holder);
    stream.cached.take_sequence(take_free());
    context_.set_adapters(stream.cached.seq(), stream.origin().adapters);
    if (match.holder >= 0 && !context_.cache().copy(match.holder, stream.cached.seq(), 0, match.n))
      match.n = 0;
    if (drafter_ != nullptr && match.n > 0) drafter_->copy(match.holder, stream.cached.seq(), match.n);
  }
  const SeqId seq = stream.cached.seq();
  stream.cached.begin_with(match.n);
  stream.cached.set_lacks_source(!stream.origin().source.empty() && context_.source_size(seq) == 0);
  if (!stream.cached.lacks_source()) {
    index_.append(seq, first(stream.text(), match.n), stream.origin());
    count_source(stream, false);
  }
  if (stream.stats.queue_ms == 0.0) {  // First admission.
    stream.stats.n_cached += match.n;
    counters_.n_cached_tokens += match.n;
  }
  broken_ = false;
}

SourceRead PrefixCache::read_source(Stream& stream) {
  const SeqId holder = reuse_prefixes_ ? index_.find_any(stream.origin()) : -1;
  if (holder >= 0) {
    (void)context_.cache().copy(holder, stream.cached.seq(), 0, 0);  // Copies the source, no cells.
  } else if (context_.set_source(stream.cached.seq(), stream.origin().source) != DecodeStatus::kOk) {
    return SourceRead::kCancelled;
  }
  broken_ = true;
  index_.append(stream.cached.seq(), {}, stream.origin());
  stream.cached.set_lacks_source(false);
  count_source(stream, holder < 0);
  broken_ = false;
  return holder < 0 ? SourceRead::kComputed : SourceRead::kShared;
}

void PrefixCache::count_source(Stream& stream, bool was_read) {
  const auto n = static_cast<int>(stream.origin().source.size());
  const bool is_first = stream.cached.note_source();
  if (is_first && !was_read) {
    stream.stats.n_cached += n;
    counters_.n_cached_tokens += n;
  } else if (is_first) {
    counters_.n_prompt_tokens += n;
  } else if (was_read) {
    stream.stats.n_recomputed += n;
    counters_.n_recomputed_tokens += n;
  }
}

void PrefixCache::computed(Stream& stream, int n) {
  broken_ = true;
  if (!stream.cached.shifted())
    index_.append(stream.cached.seq(), stream.pending().first(to_size(n)), stream.origin());
  const int n_again = stream.cached.add_computed(n);
  stream.stats.n_recomputed += n_again;
  counters_.n_recomputed_tokens += n_again;
  broken_ = false;
}

void PrefixCache::go_back(Stream& stream) {
  const SeqId seq = stream.cached.seq();
  int n = static_cast<int>(stream.text().size()) - 1;
  if (!context_.cache().can_cut(seq, n)) {
    if (stream.cached.shifted())
      return stream.fail("a banned string began before the tokens that the cache still has; shorten it");
    n = 0;
  }
  broken_ = true;
  if (!stream.cached.shifted()) index_.remove(seq);
  cut(seq, n);
  stream.cached.cut(n);
  if (n == 0) {  // Without tokens it has neither adapters nor a source.
    context_.set_adapters(seq, stream.origin().adapters);
    stream.cached.set_lacks_source(!stream.origin().source.empty());
  }
  if (!stream.cached.shifted() && !stream.cached.lacks_source())
    index_.append(seq, first(stream.text(), n), stream.origin());
  broken_ = false;
}

int PrefixCache::cells_cached(std::span<const StreamPtr> running) const {
  std::int64_t n_held = 0;
  std::vector<SeqId> holders;
  for (const StreamPtr& stream : running) {
    if (stream->cached.shifted()) {
      n_held += stream->cached.n_computed();
    } else if (stream->cached.has_sequence()) {
      holders.push_back(stream->cached.seq());
    }
  }
  n_held += index_.n_tokens_of(holders);
  return static_cast<int>(std::max<std::int64_t>(context_.cache().cells_used() - n_held, 0));
}

// --- Snapshots

std::vector<int> PrefixCache::snapshots_on_the_way(const Stream& stream, const Match& match) const {
  if (!keeps_snapshots() || !shares(stream)) return {};
  std::vector<int> lengths = stream.params().snapshot_at;
  // Another sequence has this prefix and cannot be cut there.
  lengths.push_back(index_.find(stream.all_but_last(), stream.origin()).n);
  std::erase_if(lengths, [&](int n) { return n < kMinPause || n <= match.n + kWorthWaiting; });
  return lengths;
}

void PrefixCache::touch(SeqId idle) {
  std::erase(idle_, idle);
  idle_.push_back(idle);
}

void PrefixCache::touch_snapshots(const Stream& stream) {
  if (!keeps_snapshots() || !shares(stream)) return;
  for (const int length : stream.params().snapshot_at) {
    if (length < kMinPause || length > std::ssize(stream.tokens())) continue;
    const Match match = index_.find(
        stream.tokens().first(to_size(length)), stream.origin(),
        [&](SeqId holder, int n) { return n == length && is_snapshot(holder) && index_.size(holder) == n; });
    if (match.n == length) touch(match.holder);
  }
}

bool PrefixCache::wants_snapshot(const Stream& stream, int n) const {
  if (!keeps_snapshots() || !shares(stream) || index_.doubled(stream.cached.seq())) return false;
  if (n == stream.stops.next()) return true;
  // The sequence of a stream that generates nothing is as good.
  const bool generates = !stream.is_pooled() && stream.params().n_predict != 0;
  return stream.origin().source.empty() && generates && n == stream.stats.n_prompt && n > kWorthWaiting;
}

void PrefixCache::evict_snapshot(const Stream& stream) {
  const std::vector<int>& wanted = stream.params().snapshot_at;
  SeqId replaced = -1;
  for (const SeqId seq : idle_) {
    const int n = index_.size(seq);
    if (is_snapshot(seq) && n != stream.stats.n_cached && index_.begins_with(stream.cached.seq(), seq) &&
        std::ranges::find(wanted, n) == wanted.end() && (replaced < 0 || n > index_.size(replaced)))
      replaced = seq;
  }
  (void)evict_first([&](SeqId seq) { return replaced >= 0 ? seq == replaced : is_snapshot(seq); });
}

void PrefixCache::leave_snapshot(const Stream& stream) {
  const int n = stream.cached.n_computed();
  // The step of a prompt's end may have computed drafted tokens, too.
  if (!wants_snapshot(stream, n) || !context_.cache().can_cut(stream.cached.seq(), n)) return;
  if (n_snapshots() >= max_snapshots_) evict_snapshot(stream);
  if (free_.empty() && !evict()) return;
  const SeqId seq = free_.back();
  broken_ = true;
  const bool copied = context_.cache().copy(stream.cached.seq(), seq, 0, n);
  broken_ = copied;
  if (!copied) return;
  free_.pop_back();
  if (drafter_ != nullptr) drafter_->copy(stream.cached.seq(), seq, n);
  index_.append(seq, first(stream.text(), n), stream.origin());
  is_snapshot(seq) = true;
  n_stored_[to_size(seq)] = 0;
  idle_.push_back(seq);
  ++counters_.n_snapshots;
  broken_ = false;
}

void PrefixCache::retire(Stream& stream) {
  const SeqId seq = stream.cached.seq();
  const bool needless = cuts_anywhere_ ? index_.covered(seq) : index_.doubled(seq);
  if (!shares(stream) || needless || !index_.knows(seq)) return release(stream);  // Not known: it is empty.
  n_stored_[to_size(seq)] = 0;
  idle_.push_back(stream.cached.give_up_sequence());
}

void PrefixCache::release(Stream& stream) {
  drop_branches(stream);
  if (stream.cached.has_sequence()) empty(stream.cached.give_up_sequence());
}

template <typename F>
bool PrefixCache::evict_first(F fits) {
  const auto victim = std::find_if(idle_.begin(), idle_.end(), fits);
  if (victim == idle_.end()) return false;
  store_last(*victim);
  empty(*victim);
  idle_.erase(victim);
  ++counters_.n_evicted;
  return true;
}

bool PrefixCache::evict(SeqId except) {
  return evict_first([&](SeqId seq) { return seq != except; });
}

void PrefixCache::evict_damaged() {
  std::erase_if(idle_, [&](SeqId seq) {
    if (context_.cache().intact(seq)) return false;
    empty(seq);
    ++counters_.n_evicted;
    return true;
  });
}

bool PrefixCache::shorten(const Match& match) {
  if (match.holder < 0) return false;
  const int n = std::max(match.n, 1);  // A sequence without tokens would lose its source.
  if (n >= index_.size(match.holder) || !is_idle(match.holder)) return false;
  store_last(match.holder);
  const std::vector<Token> kept = index_.text(match.holder, n);
  const TextOrigin origin = index_.origin(match.holder);
  broken_ = true;
  index_.remove(match.holder);
  cut(match.holder, n);
  index_.append(match.holder, kept, origin);
  broken_ = false;
  return true;
}

bool PrefixCache::forget(Stream& stream, const std::function<bool()>& make_room) {
  if (!stream.params().context_shift || stream.n_pending() != 1) return false;
  const SeqId seq = stream.cached.seq();
  const auto [keep, n] = middle_of(context_, seq, stream.params().n_keep);
  if (n == 0) return false;
  broken_ = true;
  index_.remove(seq);
  if (drafter_ != nullptr) drafter_->cut(seq, 0);
  const bool done = context_.cache().forget(seq, keep, n, make_room);
  broken_ = false;
  stream.cached.set_shifted();
  if (!done) return false;
  stream.forget(keep, n);
  return true;
}

// --- Branches of a draft

void PrefixCache::branch(Stream& stream, int n) {
  const SeqId seq = stream.cached.seq();
  std::vector<SeqId>& branches = stream.draft.branches();
  branches.reserve(to_size(n));
  branches.assign(1, seq);
  while (static_cast<int>(branches.size()) < n) {
    branches.push_back(take_free());
    (void)context_.cache().copy(seq, branches.back());  // Sharing a whole sequence never fails.
  }
}

void PrefixCache::keep_branch(Stream& stream, std::size_t branch) {
  const SeqId seq = stream.cached.seq();
  if (branch > 0) {
    context_.cache().remove(seq);
    (void)context_.cache().copy(stream.draft.branches()[branch], seq);
  }
  context_.cache().remove(seq, stream.cached.n_computed());
  drop_branches(stream);
}

void PrefixCache::drop_branches(Stream& stream) {
  const std::vector<SeqId>& branches = stream.draft.branches();
  for (std::size_t i = 1; i < branches.size(); ++i) {
    context_.cache().remove(branches[i]);
    free_.push_back(branches[i]);
  }
  stream.draft.drop();
}

// --- Saved prefixes

PrefixCache::Saved PrefixCache::save(std::span<const Token> text, const TextOrigin& origin) {
  const Match match = find(text, origin);
  if (match.holder < 0) return {};
  if (match.n == index_.size(match.holder)) return {match.n, context_.save(match.holder)};
  // The tokens after the match belong to another request, so the match is copied.
  broken_ = true;
  const SeqId seq = copy_prefix(match);
  broken_ = seq >= 0;
  if (seq < 0)
    throw Error(
        ErrorCode::kOverloaded,
        "the cache has no room to copy the sequence that is to be saved; try again when a request has ended");
  Saved saved{match.n, {}};
  try {
    saved.state = context_.save(seq);
  } catch (...) {
    give_back(seq);
    broken_ = false;
    throw;
  }
  give_back(seq);
  broken_ = false;
  return saved;
}

bool PrefixCache::restore(std::span<const std::byte> state, std::span<const Token> text, TextOrigin& origin) {
  if (free_.empty() && !evict()) return false;
  const auto n = static_cast<Pos>(text.size());
  const auto make_room_for_it = [&] {
    if (!evict()) return false;
    while (context_.cache().cells_used() + n > context_.cache().cells_total())
      if (!evict()) return false;
    return true;
  };
  broken_ = true;
  const SeqId seq = take_free();
  bool restored = false;
  try {
    do restored = context_.restore(state, seq);
    while (!restored && make_room_for_it());
    if (restored &&
        (context_.cache().next_pos(seq) != n || context_.source_size(seq) != std::ssize(origin.source)))
      throw Error(ErrorCode::kInvalidFile,
                  "the saved sequence is damaged: its state has another length; nothing was restored");
  } catch (...) {
    give_back(seq);
    broken_ = false;
    throw;
  }
  if (restored) {
    const auto own = context_.adapters(seq);
    origin.adapters.assign(own.begin(), own.end());
    index_.append(seq, text, origin);
  }
  is_snapshot(seq) = false;
  n_stored_[to_size(seq)] = 0;
  if (!restored) {
    free_.push_back(seq);
  } else if (cuts_anywhere_ ? index_.covered(seq) : index_.doubled(seq)) {
    empty(seq);
  } else {
    idle_.push_back(seq);
  }
  broken_ = false;
  return restored;
}

int PrefixCache::forget_idle(std::span<const Token> prompt) {
  if (prompt.empty()) return 0;
  // The index has the ids of embedded parts, and `prompt` kMediaToken for all of them.
  const auto is_same = [](Token own, Token token) {
    return own == token || (own <= kMediaToken && token == kMediaToken);
  };
  const auto is_concerned = [&](SeqId seq) {
    const std::vector<Token> own = context_.source_size(seq) > 0
                                       ? index_.origin(seq).source
                                       : index_.text(seq, static_cast<int>(prompt.size()));
    const auto n = static_cast<std::ptrdiff_t>(std::min(own.size(), prompt.size()));
    return std::equal(own.begin(), own.begin() + n, prompt.begin(), is_same);
  };
  return static_cast<int>(std::erase_if(idle_, [&](SeqId seq) {
    if (!is_concerned(seq)) return false;
    empty(seq);
    ++counters_.n_evicted;
    return true;
  }));
}

// --- Sequences

SeqId PrefixCache::take_free() {
  const SeqId seq = free_.back();
  free_.pop_back();
  return seq;
}

void PrefixCache::give_back(SeqId seq) {
  context_.cache().remove(seq);
  free_.push_back(seq);
}

SeqId PrefixCache::copy_prefix(const Match& match) {
  if (free_.empty() && !evict(match.holder)) return -1;
  const SeqId seq = take_free();
  while (!context_.cache().copy(match.holder, seq, 0, match.n))
    if (!evict(match.holder)) {
      give_back(seq);
      return -1;
    }
  return seq;
}

void PrefixCache::empty(SeqId seq) {
  index_.remove(seq);
  cut(seq, 0);
  is_snapshot(seq) = false;
  free_.push_back(seq);
}

void PrefixCache::cut(SeqId seq, int n) {
  context_.cache().remove(seq, n);
  if (drafter_ != nullptr) drafter_->cut(seq, n);
}

bool PrefixCache::is_idle(SeqId seq) const {
  return std::find(idle_.begin(), idle_.end(), seq) != idle_.end();
}

bool PrefixCache::consistent(std::span<const StreamPtr> running) const {
  std::vector<Pos> expected(to_size(context_.params().n_sequences), -1);
  const auto claim = [&](SeqId seq, int n) {
    Pos& held = expected[to_size(seq)];
    if (held >= 0) return false;
    held = n;
    return true;
  };
  for (const SeqId seq : free_)
    if (!claim(seq, 0) || index_.size(seq) != 0) return false;
  for (const SeqId seq : idle_)
    if (!claim(seq, index_.size(seq))) return false;
  for (const StreamPtr& stream : running)
    if (!claim(stream->cached.seq(), stream->cached.n_computed() + stream->cached.n_in_flight()) ||
        (!stream->cached.shifted() && index_.size(stream->cached.seq()) != stream->cached.n_computed()))
      return false;
  for (SeqId seq = 0; seq < context_.params().n_sequences; ++seq)
    if (expected[to_size(seq)] != context_.cache().next_pos(seq)) return false;
  const auto has_its_source = [&](SeqId seq) {
    return context_.source_size(seq) == (index_.knows(seq) ? std::ssize(index_.origin(seq).source) : 0);
  };
  return std::ranges::all_of(free_, has_its_source) && std::ranges::all_of(idle_, has_its_source) &&
         std::ranges::all_of(running, [&](const StreamPtr& stream) {
           const SeqId seq = stream->cached.seq();
           return stream->cached.shifted() ? context_.source_size(seq) == std::ssize(stream->origin().source)
                                           : has_its_source(seq);
         });
}

}  // namespace weft::engine
