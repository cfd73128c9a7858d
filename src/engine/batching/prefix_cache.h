#pragma once
// The sequences in a batcher's cache, and their owners.
//
// A sequence is free, belongs to a running stream (or to a branch of its draft), or is idle. An idle sequence
// holds the tokens of a finished stream, or a snapshot of a prefix. New streams can share it until its cells
// are needed. The least recently used one is evicted first. An index over all sequences finds the longest
// cached prefix of a new stream. A drafter's own cache follows these changes.
//
// This class only keeps the books; the batcher decides which stream gets a sequence. Used by one thread.
//
// Sequences with recurrent layers or sliding windows cannot be cut at any token. So streams leave snapshots
// where later requests may diverge. A snapshot costs no cells, as long as the stream holds them, too. Streams
// leave one at the end of the prompt, and where the prefill pauses. It pauses at RequestParams::snapshot_at,
// and at the end of a prefix that a waiting request or a cached sequence has in common with the prompt.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "engine/batching/prefix_index.h"
#include "engine/batching/speculation.h"
#include "engine/batching/stream.h"
#include "engine/tiers/prefix_tiers.h"

namespace weft::engine {

/// A match must save more tokens than this to be worth waiting for or a snapshot.
inline constexpr int kWorthWaiting = 16;

enum class SourceRead : std::uint8_t { kComputed, kShared, kCancelled };

class PrefixCache {
 public:
  using Match = PrefixIndex::Match;

  /// `drafter` may be nullptr; both must outlive it. `params` has the bounds of the cache. `counters` counts
  /// evictions, snapshots and tokens found in the cache. Empties the context's sequences, now and in the
  /// destructor.
  PrefixCache(Context& context, Drafter* drafter, const BatcherParams& params, BatcherStats& counters);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // --- A stream comes and goes

  /// The longest prefix of a stream that the cache can provide. It excludes the last token, which is always
  /// computed for its logits.
  Match look_up(const Stream& stream) const;
  /// Whether this stream's prefixes are shared at all.
  bool shares(const Stream& stream) const { return reuse_prefixes_ && !stream.cached.shifted(); }
  /// Whether a sequence can be cut at any token, so that others can share any prefix of it.
  bool cuts_anywhere() const { return cuts_anywhere_; }
  /// Whether streams leave snapshots.
  bool keeps_snapshots() const { return max_snapshots_ > 0; }
  /// Whether `n_needed` cells are left for a stream that begins with the match. Evicts idle sequences for
  /// them, at last the rest of the match's own sequence. Evicts none if all of them would not suffice.
  /// `n_cached` is the result of cells_cached(), if it is known already.
  bool make_room(std::int64_t n_needed, const Match& match, std::span<const StreamPtr> running,
                 std::optional<int>& n_cached);
  /// Gives the stream a sequence that begins with the match.
  void settle(Stream& stream, Match match);
  /// Gives the stream the source that it lacks (CacheState::lacks_source). It shares one that another
  /// sequence has encoded, or encodes it. Throws what Context::set_source throws; the stream still lacks its
  /// source then.
  SourceRead read_source(Stream& stream);
  /// The next `n` tokens of the stream are computed and in the cache.
  void computed(Stream& stream, int n);
  /// The stream's last tokens were dropped (RequestParams::banned_strings): its last one now is computed
  /// again, for its logits. If the sequence cannot be cut there, all of its tokens are.
  void go_back(Stream& stream);
  /// Leaves a snapshot if the stream has just computed its prompt, or a prefix at which it paused
  /// (PrefillStops::next). Another snapshot, or else the least recently used idle sequence, makes room.
  void leave_snapshot(const Stream& stream);
  /// The stream has ended; its sequence becomes idle.
  void retire(Stream& stream);
  /// Frees the stream's sequences.
  void release(Stream& stream);
  /// Evicts the least recently used idle sequence other than `except`, which the tiers may copy from the
  /// device first. False if there is none.
  bool evict(SeqId except = -1);
  /// Evicts idle sequences that a failed step has left undefined (KvCache::intact).
  void evict_damaged();
  /// Context shift: drops the older half of a running sequence after the kept tokens, in whole pages if it is
  /// long enough. The rest moves up, which may take cells if it is shared. Calls `make_room` while there are
  /// none. False if that fails; the stream cannot continue then.
  bool forget(Stream& stream, const std::function<bool()>& make_room);
  /// Empties everything, whatever its state. The running streams must drop their sequences themselves.
  void reset();
  /// Whether a change was interrupted by a failed allocation. Only reset() repairs that.
  bool is_broken() const { return broken_; }

  // --- Branches of a draft

  /// Free sequences for branches, for each of `n` streams.
  int n_spare(int n) const { return n == 0 ? 0 : static_cast<int>(free_.size()) / n; }
  /// Makes `n` branches that share all of the stream's cells. The stream's own sequence is the first.
  void branch(Stream& stream, int n);
  /// The stream continues with this branch, as far as it is computed. Drops the others.
  void keep_branch(Stream& stream, std::size_t branch);
  /// Drops the branches and their draft.
  void drop_branches(Stream& stream);

  // --- Saved prefixes

  struct Saved {
    int n = 0;  ///< Tokens.
    std::vector<std::byte> state = {};
  };
  /// Saves the longest cached prefix of this origin, its source included. The state is empty if there is
  /// none. Throws Error kOverloaded if the prefix is a part of a sequence and there is no free sequence or
  /// cell for a copy.
  Saved save(std::span<const Token> text, const TextOrigin& origin);
  /// Restores a saved state as an idle sequence of these tokens; other idle sequences make room. False if
  /// there is no room. Throws Error if the state cannot be restored. `origin` has the source, and receives
  /// the saved adapters.
  bool restore(std::span<const std::byte> state, std::span<const Token> text, TextOrigin& origin);
  /// Evicts idle sequences that begin with this prompt or are a prefix of it. A source counts as a prompt.
  /// Returns their number.
  int forget_idle(std::span<const Token> prompt);

  // --- Tiers (prefix_restore.cpp)

  /// A step begins: it may copy some bytes from and to the tiers.
  void begin_step() {
    if (tiers_ != nullptr) tiers_->begin_step();
  }
  /// Restores stored blocks of a waiting stream's prompt as an idle sequence, and updates its `match`. True
  /// while more of them are to come: the stream waits for them. `running` and `n_cached`: see make_room().
  bool restores_more(Stream& stream, Match& match, std::span<const StreamPtr> running,
                     std::optional<int>& n_cached);
  /// Waits a moment for files.
  void wait_for_files() {
    if (tiers_ != nullptr) tiers_->wait();
  }
  /// Whether store_idle() has something to copy: with files always, else if the cache fills up.
  bool wants_store() const;
  /// Copies idle sequences to the tiers, as far as this step may.
  void store_idle();
  CacheTierStats tier_stats() const { return tiers_ != nullptr ? tiers_->stats() : CacheTierStats(); }

  // --- Statistics

  int n_idle() const { return static_cast<int>(idle_.size()); }
  int n_snapshots() const { return static_cast<int>(std::ranges::count(is_snapshot_, true)); }
  std::span<const SeqId> idle() const { return idle_; }
  int n_tokens(SeqId idle) const { return index_.size(idle); }
  int n_free() const { return static_cast<int>(free_.size()); }
  /// Cells that evicting all idle sequences would free. An upper bound: running streams are counted by the
  /// index, where equal sequences that were computed apart count once.
  int cells_cached(std::span<const StreamPtr> running) const;
  /// Whether the sequences match the index and these streams; for tests and audits.
  bool consistent(std::span<const StreamPtr> running) const;

 private:
  /// The longest cached prefix of this origin; at least a holder of its source, if there is one.
  Match find(std::span<const Token> text, const TextOrigin& origin) const;
  /// Restores a piece of `text`, whose cached prefix is `match`. There must be cells for it. False if all
  /// sequences are in use.
  bool restore_piece(const StoredPiece& piece, const BlockStore::Taken& taken, std::span<const Token> text,
                     const TextOrigin& origin, const Match& match);
  /// Copies an idle sequence to the tiers, as far as this step may. What fails is given up.
  void store(SeqId seq) noexcept;
  /// The same for one that is about to be cut or evicted: blocks that the tiers have dropped are copied
  /// again.
  void store_last(SeqId seq) noexcept;
  bool is_stored(SeqId seq) const { return n_stored_[to_size(seq)] >= index_.size(seq); }
  /// Copies all idle sequences to the files.
  void store_all();
  /// Counts a stream's source: encoded for it, or shared.
  void count_source(Stream& stream, bool was_read);
  /// Empties and frees a sequence.
  void empty(SeqId seq);
  SeqId take_free();
  /// Frees a sequence that the index does not know.
  void give_back(SeqId seq);
  /// A copy of the match, in a sequence that the index does not know. Other idle ones make room. -1: the
  /// cache is full.
  SeqId copy_prefix(const Match& match);
  bool is_idle(SeqId seq) const;
  std::vector<bool>::reference is_snapshot(SeqId seq) { return is_snapshot_[to_size(seq)]; }
  /// Evicts the first idle sequence for which `fits(seq)` is true. False if there is none.
  template <typename F>
  bool evict_first(F fits);
  /// Notes that an idle sequence was used now.
  void touch(SeqId idle);
  /// Notes that the snapshots at the stream's RequestParams::snapshot_at were used now, also if it begins
  /// with a longer match.
  void touch_snapshots(const Stream& stream);
  /// Whether a prefix of `n` tokens, which the stream has just computed, is worth a snapshot.
  bool wants_snapshot(const Stream& stream, int n) const;
  /// Evicts a snapshot, as the stream leaves another one. It is one that the new one replaces in the same
  /// conversation, or else the least recently used one.
  void evict_snapshot(const Stream& stream);
  /// Keeps the first n tokens of the sequence.
  void cut(SeqId seq, int n);
  /// Cuts an idle sequence to the match. False if that frees nothing.
  bool shorten(const Match& match);
  /// The lengths at which a stream that begins with the match should leave snapshots before the end of its
  /// prompt.
  std::vector<int> snapshots_on_the_way(const Stream& stream, const Match& match) const;

  Context& context_;
  Drafter* const drafter_;
  const bool reuse_prefixes_;
  const bool cuts_anywhere_;
  const int max_snapshots_;
  BatcherStats& counters_;
  PrefixIndex index_;
  std::vector<SeqId> free_;
  std::vector<SeqId> idle_;  // Least recently used first.
  bool broken_ = false;
  std::unique_ptr<PrefixTiers> tiers_;  // Null: none.
  std::vector<int> n_stored_;           // By idle sequence: PrefixTiers::store.
  std::vector<bool> is_snapshot_;       // By sequence: a snapshot stays idle when a stream begins with it.
};

}  // namespace weft::engine
