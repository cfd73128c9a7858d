#pragma once
// The texts in a batcher's cache, and which sequence holds which.
//
// A sequence is free, a running stream's (or a branch of its draft), or idle: an idle one holds what a
// finished stream left, or a beginning that was copied in time, for others that begin alike, until its room
// is needed; the least recently used goes first. An index over all of them finds what a new stream can begin
// with. What a drafter keeps for a sequence follows.
//
// It says who holds what; who gets something when is the batcher's business. Used by one thread.
//
// What cannot be cut is copied in time. Texts of recurrent layers and of windows cannot be cut anywhere. When
// a request begins like a text that cannot be cut there, its own prefill pauses at that place and leaves a
// copy, which costs no cells: the second one pays, all later ones share. Those that wait for a running prompt
// make it pause too.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/batching/prefix_index.h"
#include "engine/batching/speculation.h"
#include "engine/batching/stream.h"

namespace weft::engine {

/// What a stream gains by finding its beginning must be more than so many tokens to be waited for or copied.
inline constexpr int kWorthWaiting = 16;

enum class SourceRead : std::uint8_t { kComputed, kShared, kCancelled };

class PrefixCache {
 public:
  using Match = PrefixIndex::Match;

  /// `drafter` may be nullptr; both must outlive it. Evictions, snapshots and tokens that were found are
  /// counted in `counters`. The context's sequences are emptied, now and at the end.
  PrefixCache(Context& context, Drafter* drafter, bool reuse_prefixes, BatcherStats& counters);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // --- A stream comes and goes

  /// What the cache has of a stream's text, and can give. The last token is computed in any case, for its
  /// logits.
  Match look_up(const Stream& stream) const;
  /// Whether texts with this stream's beginning are shared at all.
  bool shares(const Stream& stream) const { return reuse_prefixes_ && !stream.shifted; }
  /// Whether a text can be cut anywhere, so that others can begin with any part of it.
  bool cuts_anywhere() const { return cuts_anywhere_; }
  /// Whether `n_needed` cells are left for a stream that is to begin with the match. Evicts idle texts for
  /// them, at last what the match's own has beyond it; none, where all of them would not do. `n_cached` is
  /// what cells_cached() says, where that was asked already.
  bool make_room(std::int64_t n_needed, const Match& match, std::span<const StreamPtr> running,
                 std::optional<int>& n_cached);
  /// A sequence for a stream, beginning with the match.
  void settle(Stream& stream, Match match);
  /// The stream lacks its source (Stream::lacks_source): it gets one that another sequence has read, or else
  /// reads it, and whoever begins like it may share that. Throws what Context::set_source throws; the stream
  /// lacks its source still then.
  SourceRead read_source(Stream& stream);
  /// The next `n` tokens of the stream's text are in the cache.
  void computed(Stream& stream, int n);
  /// A stream that has just computed a beginning that others want (Stream::pause_at) leaves a copy of it.
  void leave_snapshot(const Stream& stream);
  /// The stream is over: what it leaves may serve others.
  void retire(Stream& stream);
  /// The stream's sequences are free again.
  void release(Stream& stream);
  /// Gives up the idle text that was of use least recently, `except` not counted. False where there is none.
  bool evict(SeqId except = -1);
  /// Gives up idle texts whose cells a failed step has left unsure (Context::intact).
  void evict_unsound();
  /// Forgets the older half of a running text behind what is kept, in whole pages where it is long enough for
  /// that. The rest moves up, which may take cells where it is shared: while there are none, `make_room` is
  /// asked for them. False where that cannot be done, and the text cannot go on.
  bool forget(Stream& stream, const std::function<bool()>& make_room);
  /// Empties everything, whatever state it is in. The streams that run must give up their sequences
  /// themselves.
  void reset();
  /// Whether a change stopped halfway, for want of memory: only reset() helps then.
  bool is_broken() const { return broken_; }

  // --- Branches of a draft

  /// Sequences that are free for `n` streams' branches, for each of them.
  int n_spare(int n) const { return n == 0 ? 0 : static_cast<int>(free_.size()) / n; }
  /// The stream's text as `n` branches, its own sequence first; they share all of it.
  void branch(Stream& stream, int n);
  /// The stream goes on with this branch (where it has several), as far as it is computed; the others are
  /// given up.
  void keep_branch(Stream& stream, std::size_t branch);
  /// Branches are given up, and the draft that they were for.
  void drop_branches(Stream& stream);

  // --- Texts that outlive the cache

  struct Saved {
    int n = 0;  ///< Tokens.
    std::vector<std::byte> state = {};
  };
  /// The longest beginning of the text of this origin that the cache has and can give, its source included;
  /// no state where it has none. Error kOverloaded where it is a part of what a sequence holds and there is
  /// no sequence, or no cell, for a copy.
  Saved save(std::span<const Token> text, const TextOrigin& origin);
  /// A saved state becomes an idle text of these tokens; others that are idle make room. False where there
  /// is none. Throws Error where the state cannot be taken up. `origin` has the source that it is about, and
  /// gets the adapters that it was written with.
  bool restore(std::span<const std::byte> state, std::span<const Token> text, TextOrigin& origin);
  /// Drops idle texts that begin with this prompt (as which a source counts), or that it begins with. How
  /// many those were.
  int forget_idle(std::span<const Token> prompt);

  // --- How things stand

  int n_idle() const { return static_cast<int>(idle_.size()); }
  std::span<const SeqId> idle() const { return idle_; }
  int n_tokens(SeqId idle) const { return index_.size(idle); }
  int n_free() const { return static_cast<int>(free_.size()); }
  /// Of the cells in use those that evicting all idle texts would free: counted in tokens of the index, which
  /// may be more than that where texts that are the same were computed apart.
  int cells_cached(std::span<const StreamPtr> running) const;
  /// Whether sequences hold what the index and these streams say; for tests and audits.
  bool consistent(std::span<const StreamPtr> running) const;

 private:
  /// The longest beginning of the text of this origin that the cache has and can give; its source at least,
  /// where there is a holder.
  Match find(std::span<const Token> text, const TextOrigin& origin) const;
  /// The stream has a source: read for it, or of another sequence.
  void count_source(Stream& stream, bool was_read);
  /// Empties a sequence; it is free then.
  void empty(SeqId seq);
  SeqId take_free();
  bool is_idle(SeqId seq) const;
  std::vector<bool>::reference is_snapshot(SeqId seq) { return is_snapshot_[static_cast<std::size_t>(seq)]; }
  /// Of the sequence's text only the first n tokens still stand.
  void cut(SeqId seq, int n);
  /// Gives up what an idle text has beyond a match. False where there is nothing to be had.
  bool shorten(const Match& match);
  /// How long a beginning of the stream's text is worth keeping, because somebody else has it and cannot be
  /// cut there: 0 for none.
  int beginning_to_keep(const Stream& stream, const Match& match) const;

  Context& context_;
  Drafter* const drafter_;
  const bool reuse_prefixes_;
  const bool cuts_anywhere_;
  BatcherStats& counters_;
  PrefixIndex index_;
  std::vector<SeqId> free_;
  std::vector<SeqId> idle_;  // Least recently used first.
  bool broken_ = false;
  std::vector<bool> is_snapshot_;  // By sequence: an idle one that stays for others when one goes on from it.
};

}  // namespace weft::engine
