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
#include <cstdint>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "weft/types.h"

namespace weft::kv {

class StateSlots {
 public:
  static constexpr std::int32_t kNone = -1;

  explicit StateSlots(int n_sequences);
  static int n_slots_for(int n_sequences) { return 2 * n_sequences; }

  /// Where a sequence's state lies; kNone for an empty sequence.
  std::int32_t slot(SeqId seq) const { return held_[to_size(seq)]; }
  void remove(SeqId seq) { set(seq, kNone); }
  void copy(SeqId from, SeqId to) { set(to, slot(from)); }
  /// A slot for a state that the caller writes, in place of what the sequence held.
  std::int32_t renew(SeqId seq);

  // A batch: begin(), step() for each token in order, then commit() or abandon(). No other changes in
  // between. One that was not ended is given up by the next.
  struct Step {
    std::int32_t from = kNone;
    std::int32_t to = 0;
  };
  void begin();
  /// Whether two sequences have the same tokens so far, by their slots.
  bool same_text(SeqId a, SeqId b) const { return slot(a) == slot(b); }
  /// A token for sequences with the same tokens so far.
  Step step(SeqId seq, std::span<const SeqId> shared_with);
  void commit();
  void abandon();

  /// Whether all counts agree with each other; for tests and audits.
  bool consistent() const;

 private:
  void hold(std::int32_t slot);
  void release(std::int32_t slot);
  void set(SeqId seq, std::int32_t slot);
  std::int32_t take();

  std::vector<std::int32_t> held_;       // By sequence.
  std::vector<std::int32_t> before_;     // By sequence: when the batch began; empty outside of one.
  std::vector<std::int32_t> n_holders_;  // By slot: of both.
  std::vector<std::int32_t> free_;
};

}  // namespace weft::kv
