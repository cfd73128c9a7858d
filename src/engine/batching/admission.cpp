#include "engine/batching/admission.h"

#include <algorithm>
#include <exception>

#include "graph/extent.h"

namespace weft::engine {
namespace {

/// Waiting streams that are looked at in a step: those behind wait for their turn.
constexpr int kMaxLookAhead = 64;
/// So many may pass one that does not fit. Then the running ones end, until it does.
constexpr int kMaxPassed = 64;
/// Tokens that a stream may be about to write while others are let in.
constexpr int kHeadroom = 8;

/// Tokens that both texts begin with, the last one of `stream` not counted: it is computed in any case.
int n_in_common(const Stream& other, const Stream& stream) {
  const std::span<const Token> text = stream.tokens(), theirs = other.tokens();
  const auto n = static_cast<std::ptrdiff_t>(std::min(theirs.size(), text.size() - 1));
  return static_cast<int>(std::mismatch(text.begin(), text.begin() + n, theirs.begin()).first - text.begin());
}

/// Cells for the stream, besides what the running ones are about to write.
std::int64_t n_needed(const Stream& stream, const PrefixCache::Match& match,
                      const std::vector<StreamPtr>& running) {
  // Of the last page that is shared the stream gets a copy of its own, once it writes there.
  std::int64_t n = std::ssize(stream.tokens()) - match.n + match.n % kPageCells;
  for (const auto& other : running) n += std::max(other->n_pending(), kHeadroom);
  return n;
}

void pause_for_others(Stream& stream) {
  stream.pause_at = 0;
  stream.pause_reading_at(stream.snapshot_at);
}

}  // namespace

void Admission::wait_again(const StreamPtr& stream) noexcept {
  Queue::node_type entry = std::move(entries_.back());
  entries_.pop_back();
  entry.key() = stream->key();
  entry.mapped() = stream;
  waiting_.insert(std::move(entry));
}

void Admission::admit(std::vector<StreamPtr>& running) {
  for (const StreamPtr& stream : running) pause_for_others(*stream);
  int n_seen = 0;
  std::vector<Stream*> passed;
  for (auto entry = waiting_.begin(); entry != waiting_.end() && n_seen < kMaxLookAhead; ++n_seen) {
    if (static_cast<int>(running.size()) >= n_running_) return;
    const StreamPtr stream = entry->second;
    if (stream->paused) {
      ++entry;
      continue;
    }
    const PrefixCache::Match match = cache_.look_up(*stream);
    if (should_wait(*stream, match.n, running)) {
      ++entry;
      continue;
    }
    // Who would be alone is let in anyway: it fits, or its own steps make room.
    if (!cache_.make_room(n_needed(*stream, match, running), match, running) && !running.empty()) {
      if (stream->n_passed >= kMaxPassed) return;
      passed.push_back(stream.get());
      ++entry;
      continue;
    }
    try {
      stream->prepare();
    } catch (const std::exception& error) {
      stream->fail(error.what());
      ++entry;
      continue;
    }
    cache_.settle(*stream, match);
    if (stream->shifted && !take_up(*stream)) {
      cache_.release(*stream);
      return;
    }
    const auto next = std::next(entry);
    if (entries_.size() == entries_.capacity()) entries_.pop_back();
    entries_.push_back(waiting_.extract(entry));
    entry = next;
    running.push_back(stream);
    pause_for_others(*stream);
    for (Stream* other : passed) ++other->n_passed;
  }
}

/// Whether somebody is about to compute more of the stream's text than the cache has: worth waiting for.
/// Where texts cannot be cut, the other one is to pause there.
bool Admission::should_wait(const Stream& stream, int n_cached, const std::vector<StreamPtr>& running) const {
  if (!cache_.shares(stream) || stream.wants_prompt()) return false;
  const auto found = std::find_if(running.begin(), running.end(), [&](const StreamPtr& other) {
    if (!other->is_prefilling() || other->shifted || other->paused) return false;
    const int n = n_in_common(*other, stream);
    return n > other->n_computed && n > n_cached + kWorthWaiting;
  });
  if (found == running.end()) return false;
  if (!cache_.cuts_anywhere()) (*found)->pause_reading_at(n_in_common(**found, stream));
  return true;
}

/// The cache of a shifted stream comes back as it was.
bool Admission::take_up(Stream& stream) {
  while (!context_.restore(stream.saved, stream.seq))
    if (!cache_.evict()) return false;
  stream.n_computed = context_.next_pos(stream.seq);
  stream.saved = {};
  return true;
}

}  // namespace weft::engine
