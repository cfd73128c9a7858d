#include "engine/batching/admission.h"

#include <algorithm>
#include <new>
#include <optional>

#include "engine/batching/what.h"
#include "weft/graph/extent.h"

namespace weft::engine {
namespace {

/// Waiting streams that one step considers; the rest of the queue waits for a later step.
constexpr int kMaxLookAhead = 64;
/// Waiting streams that one step finds to need a prefix of a running stream. Each is compared with the
/// running streams.
constexpr int kMaxWaitingForPrefix = 256;
/// Streams that may pass one that does not fit. After that, all later streams wait until it fits.
constexpr int kMaxPassed = 64;
/// At least this many cells are reserved for the next tokens of each running stream.
constexpr int kHeadroom = 8;

/// Length of the common prefix, without the last token of `stream`, which is always computed. Nullopt unless
/// it is longer than `least` and `other` has not computed all of it. Tokens that are not computed are
/// compared first: most streams differ there.
std::optional<int> n_in_common(const Stream& other, const Stream& stream, int least) {
  const std::span<const Token> text = stream.tokens(), theirs = other.tokens();
  const auto n = static_cast<std::ptrdiff_t>(std::min(theirs.size(), text.size() - 1));
  const std::ptrdiff_t begin = other.cached.n_computed();
  if (begin >= n) return std::nullopt;
  const auto end = std::mismatch(text.begin() + begin, text.begin() + n, theirs.begin() + begin).first;
  const auto common = static_cast<int>(end - text.begin());
  if (common <= std::max(other.cached.n_computed(), least)) return std::nullopt;
  if (!std::equal(text.begin(), text.begin() + begin, theirs.begin())) return std::nullopt;
  return common;
}

/// Cells that the stream needs, plus the cells that the running streams are about to fill.
std::int64_t n_needed(const Stream& stream, const PrefixCache::Match& match,
                      const std::vector<StreamPtr>& running) {
  // If the match ends inside a page, the stream gets a copy of that page when it first writes there.
  std::int64_t n = std::ssize(stream.tokens()) - match.n + match.n % kPageCells;
  for (const auto& other : running) n += std::max(other->n_pending(), kHeadroom);
  return n;
}

}  // namespace

void Admission::wait_again(const StreamPtr& stream) noexcept {
  stream->schedule.set_yields(false);
  Queue::node_type entry = std::move(entries_.back());
  entries_.pop_back();
  entry.key() = stream->schedule.key();
  entry.mapped() = stream;
  waiting_.insert(std::move(entry));
  n_tokens_ += stream->n_to_read();
}

bool Admission::admit(std::vector<StreamPtr>& running) {
  for (const StreamPtr& stream : running) stream->reset_stops();
  concerned_ = nullptr;
  any_restoring_ = lacks_room_ = false;
  bool others_have_work = std::ranges::any_of(
      running, [](const StreamPtr& stream) { return !stream->is_background() && goes_on(stream); });
  bool any_failed = false;
  int n_seen = 0, n_for_prefix = 0;
  std::vector<Stream*> passed;
  std::optional<int> n_cached;  // Cells that eviction could free; unset if not known.
  for (auto entry = waiting_.begin(); entry != waiting_.end() && n_seen < kMaxLookAhead;) {
    const StreamPtr stream = entry->second;
    const bool is_background = stream->is_background();
    if (!goes_on(stream) || stream->done() || (is_background && others_have_work)) {
      ++entry;
      continue;
    }
    others_have_work = others_have_work || !is_background;
    if (static_cast<int>(running.size()) >= n_running_) {
      lacks_room_ = lacks_room_ || !is_background;
      break;
    }
    PrefixCache::Match match = cache_.look_up(*stream);
    if (should_wait(*stream, match.n, running)) {
      if (++n_for_prefix == kMaxWaitingForPrefix) break;
      ++entry;
      continue;
    }
    ++n_seen;
    concerned_ = stream;
    if (cache_.restores_more(*stream, match, running, n_cached)) {
      any_restoring_ = true;
      ++entry;
      continue;
    }
    // A stream that would run alone is always admitted: it fits, or its own steps make room.
    if (!cache_.make_room(n_needed(*stream, match, running), match, running, n_cached) && !running.empty()) {
      lacks_room_ = lacks_room_ || !is_background;
      if (stream->schedule.n_passed() >= kMaxPassed) break;
      passed.push_back(stream.get());
      ++entry;
      continue;
    }
    n_cached.reset();
    try {
      stream->prepare();
    } catch (const std::bad_alloc&) {
      throw;  // There may be more memory the next time.
    } catch (...) {
      stream->fail(what_is_thrown());
      any_failed = true;
      ++entry;
      continue;
    }
    cache_.settle(*stream, match);
    if (stream->cached.shifted() && !take_up(*stream)) {
      cache_.release(*stream);
      break;
    }
    const auto next = std::next(entry);
    n_tokens_ -= stream->n_to_read();
    if (entries_.size() == entries_.capacity()) entries_.pop_back();
    entries_.push_back(waiting_.extract(entry));
    entries_.back().mapped() = nullptr;
    entry = next;
    running.push_back(stream);
    stream->reset_stops();
    for (Stream* other : passed) other->schedule.pass();
  }
  concerned_ = nullptr;
  return any_failed;
}

/// True if a running stream is about to compute more of this stream's prefix than the cache has. Then waiting
/// pays. If cached sequences cannot be cut anywhere, the running stream is made to pause at the end of the
/// common prefix.
bool Admission::should_wait(const Stream& stream, int n_cached, const std::vector<StreamPtr>& running) const {
  if (!cache_.shares(stream) || !stream.reuses_prefix()) return false;
  for (const StreamPtr& other : running) {
    if (!other->is_prefilling() || other->cached.shifted() || !goes_on(other)) continue;
    if (other->is_background() && !stream.is_background()) continue;  // It may be computed late.
    if (other->origin() != stream.origin()) continue;
    const std::optional<int> n = n_in_common(*other, stream, n_cached + kWorthWaiting);
    if (!n) continue;
    if (!cache_.cuts_anywhere()) {
      if (!cache_.keeps_snapshots()) continue;
      other->pause_reading_at(*n);
    }
    return true;
  }
  return false;
}

/// Restores the saved cells of a shifted stream.
bool Admission::take_up(Stream& stream) {
  while (!context_.restore(stream.cached.saved(), stream.cached.seq()))
    if (!cache_.evict()) return false;
  stream.cached.begin_with(context_.cache().next_pos(stream.cached.seq()));
  stream.cached.set_lacks_source(false);  // The saved state contains it.
  stream.cached.set_saved({});
  return true;
}

}  // namespace weft::engine
