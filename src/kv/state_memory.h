#pragma once
// The memory of recurrent layers: slots of running states. Inputs of a step give the slot that each token
// starts from and the slot for its state. Tokens are read in order. Sequences are removed and copied only as
// a whole, or up to a token whose state before it is kept (StateSlots).
#include "kv/sequence_memory.h"
#include "kv/state_slots.h"

namespace weft::kv {

class StateMemory final : public SequenceMemory {
 public:
  /// What such layers read of a ubatch: slots before and after each token.
  struct Inputs {
    std::span<std::int32_t> from, to;
  };
  /// `sequences` must outlive it. The states before the last `rewind` items with logits are kept.
  StateMemory(const Sequences& sequences, int rewind, const Inputs& inputs)
      : sequences_(sequences), rewind_(rewind), slots_(sequences.n_sequences(), rewind), inputs_(inputs) {}

  Refusal why_not_remove(SeqId seq, Pos begin, Pos end) const override;
  Refusal why_not_copy(SeqId from, SeqId to, Pos begin, Pos end) const override;
  Refusal why_not_shift(SeqId seq, Pos begin, Pos end, Pos delta) const override;
  Refusal why_not_divide(SeqId seq, Pos begin, Pos end, int divisor) const override;
  Refusal why_not_take(SeqId seq, Pos pos) const override;
  bool shifts() const override { return false; }
  bool cuts_back() const override { return rewind_ > 0; }

  void removed(SeqId seq, Pos begin) override;
  void copied(SeqId from, SeqId to, Pos begin, Pos end) override;

  void begin_batch() override;
  Refusal add(const SeqPos& at, std::span<const SeqId> shared_with, bool logits) override;
  void bind(const PlacedItems& items) override;
  void end_batch(bool computed) override;

  std::vector<std::int32_t> rows_of(const Snapshot& snapshot, std::span<const std::int32_t> cells,
                                    std::vector<std::uint64_t>& kept) const override;
  std::vector<std::int32_t> restored(const Snapshot& snapshot, std::span<const std::int32_t> cells,
                                     std::span<const std::uint64_t> kept) override;

  std::int64_t max_rows_each() const override { return 1; }
  bool consistent() const override;

 private:
  bool is_empty(SeqId seq) const { return sequences_.next_pos(seq) == 0; }
  /// Whether the range has all of a sequence that is not empty, or nothing of it.
  bool has_all(SeqId seq, Pos begin, Pos end) const;
  bool has_nothing(SeqId seq, Pos begin, Pos end) const;
  /// Whether the range is a prefix of a sequence, and the state at its end is kept.
  bool has_kept(SeqId seq, Pos begin, Pos end) const;

  const Sequences& sequences_;
  const int rewind_;
  StateSlots slots_;
  const Inputs inputs_;
  std::vector<StateSlots::Step> steps_;  // By item of the batch.
};

}  // namespace weft::kv
