#pragma once
// Which slot holds a sequence's running state in recurrent layers: bookkeeping only, no tensors.
//
// A running state cannot be cut: it represents all tokens of a sequence so far. So a slot that a sequence
// holds is never written to while a batch is under way. Each batch writes its states to free slots, and the
// sequences take these slots when it is done. A cancelled batch has changed nothing. Sequences with the same
// tokens share a slot, so copies cost nothing. With two slots a sequence there is always a free one.
//
// A copy shares its slot until it continues. The device gets only the slots to read and to write for each
// row: it knows nothing of sequences.
//
// With more slots, earlier states are kept: the states before the last tokens that may be removed again, such
// as drafts. A sequence goes back by taking the slot of such a state. The oldest kept states make room for
// new ones.
#include <cstdint>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "weft/types.h"

namespace weft::kv {

class StateSlots {
 public:
  static constexpr std::int32_t kNone = -1;

  /// At most `n_kept` earlier states are kept, of all sequences together.
  explicit StateSlots(int n_sequences, int n_kept = 0);
  static int n_slots_for(int n_sequences, int n_kept) { return 2 * n_sequences + n_kept; }

  /// Where a sequence's state lies; kNone for an empty sequence.
  std::int32_t slot(SeqId seq) const { return held_[to_size(seq)]; }
  void remove(SeqId seq);
  /// `to` becomes a copy of `from`, without its kept states.
  void copy(SeqId from, SeqId to);
  /// A slot for a state that the caller writes, in place of what the sequence held.
  std::int32_t renew(SeqId seq);

  // Kept states. Each is named by the position of the token that follows it.

  /// Whether the state of `seq` before its token at `pos` is kept.
  bool keeps(SeqId seq, Pos pos) const { return kept_slot(seq, pos) != kNone; }
  /// `to` becomes a copy of `from` as it was before its token at `pos`. That state must be kept. With `to` ==
  /// `from` the sequence goes back there, and states from there on are kept no longer.
  void copy_kept(SeqId from, SeqId to, Pos pos);
  /// The lowest of these positions that is at least `pos`; -1: none.
  Pos first_kept(SeqId seq, Pos pos) const;
  /// Keeps no state of `seq` before a token at `pos` or later.
  void drop_kept(SeqId seq, Pos pos = 0);

  // A batch: begin(), step() for each token in order, then commit() or abandon(). No other changes in
  // between. One that was not ended is given up by the next.
  struct Step {
    std::int32_t from = kNone;
    std::int32_t to = 0;
  };
  void begin();
  /// Whether two sequences have the same tokens so far, by their slots.
  bool same_text(SeqId a, SeqId b) const { return slot(a) == slot(b); }
  /// A token for sequences with the same tokens so far. `keep_at`: the state before it is kept with this
  /// position, unless this batch has used up the room for kept states. -1: it is not kept.
  Step step(SeqId seq, std::span<const SeqId> shared_with, Pos keep_at = -1);
  void commit();
  /// Drops the batch's kept states. The states that made room for them stay dropped.
  void abandon();

  /// Whether all counts agree with each other; for tests and audits.
  bool consistent() const;

 private:
  void hold(std::int32_t slot);
  void release(std::int32_t slot);
  void set(SeqId seq, std::int32_t slot);
  std::int32_t take();
  std::int32_t kept_slot(SeqId seq, Pos pos) const;
  void keep(SeqId seq, Pos pos);
  template <typename F>
  void drop_kept_if(F is_dropped);

  struct Kept {
    SeqId seq;
    Pos pos;
    std::int32_t slot;
    bool is_new;  // Of the batch under way.
  };
  std::vector<std::int32_t> held_;       // By sequence.
  std::vector<std::int32_t> before_;     // By sequence: when the batch began; empty outside of one.
  std::vector<std::int32_t> n_holders_;  // By slot: of both, and of kept states.
  std::vector<std::int32_t> free_;
  std::vector<Kept> kept_;  // The oldest first.
  const std::size_t max_kept_;
};

}  // namespace weft::kv
