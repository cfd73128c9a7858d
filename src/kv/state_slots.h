#pragma once
// Which slot holds a sequence's running state in recurrent layers: bookkeeping only, no tensors.
//
// A running state cannot be cut: it stands for all of a sequence's text at once. So a slot that a sequence
// holds is never written to while a batch is under way. Each batch leaves its states in free slots, and the
// sequences take them over when it is done; a batch that is given up has changed nothing. Sequences of the
// same text share a slot, so copies cost nothing. With two slots a sequence there is always a free one.
//
// Running states are never changed in place. A batch reads the slots that its sequences hold and writes to
// free ones, which the sequences take over when it is done (src/kv/state_slots.h). So a batch that is
// cancelled has changed nothing, a copy shares its slot until it goes on, and the device only learns, row by
// row, which slot to go on from and which to leave the state in: it knows nothing of sequences.
#include <cstdint>
#include <span>
#include <vector>

#include "weft/types.h"

namespace weft::kv {

class StateSlots {
 public:
  static constexpr std::int32_t kNone = -1;

  explicit StateSlots(int n_sequences);
  static int n_slots_for(int n_sequences) { return 2 * n_sequences; }

  /// Where a sequence's state lies; kNone for an empty sequence.
  std::int32_t slot(SeqId seq) const { return held_[static_cast<std::size_t>(seq)]; }
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
  /// The sequences that get a token have the same text so far, as the slots tell.
  bool same_text(SeqId a, SeqId b) const { return slot(a) == slot(b); }
  /// A token for sequences of the same text.
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
