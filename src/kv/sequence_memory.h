#pragma once
// The memory of the sequences in layers of one kind: bookkeeping only, no tensors.
//
// Sequences has the positions and cells of all tokens. Layers with full attention need no more. Layers of
// other kinds have additional memory: the cells of a window (window_memory.h), or one running state of all
// tokens so far (state_memory.h). A context has a SequenceMemory for each such kind of its model. It follows
// the operations on Sequences, and refuses beforehand operations that its layers cannot follow.
#include <cstdint>
#include <span>
#include <vector>

#include "kv/move_log.h"
#include "kv/sequences.h"
#include "weft/graph/extent.h"
#include "weft/types.h"

namespace weft::kv {

/// Why something cannot be done, with the way out. Null: it can.
using Refusal = const char*;

/// The items of a ubatch, once they have their cells.
struct PlacedItems {
  int first = 0;  ///< The first one's number in the batch.
  std::span<const SeqPos> at;
  std::span<const std::int32_t> cells;
  std::span<const HiddenCells> hidden;  ///< What they do not see, in the pages of Sequences.
};

/// Used by one thread.
class SequenceMemory {
 public:
  virtual ~SequenceMemory() = default;

  // --- Whether sequences could continue after an operation of Sequences with these arguments

  virtual Refusal why_not_remove(SeqId seq, Pos begin, Pos end) const = 0;
  virtual Refusal why_not_copy(SeqId from, SeqId to, Pos begin, Pos end) const = 0;
  virtual Refusal why_not_shift(SeqId seq, Pos begin, Pos end, Pos delta) const = 0;
  virtual Refusal why_not_divide(SeqId seq, Pos begin, Pos end, int divisor) const = 0;
  /// Whether the rows that a token at `pos` sees are there.
  virtual Refusal why_not_take(SeqId seq, Pos pos) const = 0;
  /// Whether sequences can be shifted and divided at all.
  virtual bool shifts() const = 0;
  /// Whether the tokens that the last batch added to a sequence can be removed again.
  virtual bool cuts_back() const = 0;

  // --- What was done

  /// Tokens from `begin` on were removed, if there were any; later tokens may remain.
  virtual void removed(SeqId /*seq*/, Pos /*begin*/) {}
  virtual void copied(SeqId /*from*/, SeqId /*to*/, Pos /*begin*/, Pos /*end*/) {}
  /// Moves were logged. Only one memory of a context may follow them.
  virtual void follow(MoveLog& /*moves*/) {}

  // --- A batch: begin_batch(), add() for each item in order; ubatches; end_batch()

  virtual void begin_batch() = 0;
  /// An item, before it is taken, for its sequence and others. Items with `logits` may be drafts, which are
  /// removed again if they are wrong. Null, or the batch cannot be computed.
  virtual Refusal add(const SeqPos& at, std::span<const SeqId> shared_with, bool logits) = 0;
  /// Before a ubatch is placed.
  virtual void begin_ubatch() {}
  /// A token of the ubatch goes there, after the moves so far.
  virtual void store(std::int32_t /*cell*/) {}
  /// Writes the inputs of the layers.
  virtual void bind(const PlacedItems& items) = 0;
  /// `computed`: otherwise the batch was given up, and its items are taken back.
  virtual void end_batch(bool computed) = 0;

  // --- Snapshots. `kept` has the cells of each of its pages whose rows are there

  /// Evicts rows that no sequence needs.
  virtual void evict() {}
  /// The rows of a snapshot in the caches; its cells are now `cells`. Removes cells whose rows are gone from
  /// `kept`.
  virtual std::vector<std::int32_t> rows_of(const Snapshot& snapshot, std::span<const std::int32_t> cells,
                                            std::vector<std::uint64_t>& kept) const = 0;
  /// Whether a sequence could continue with the cells in `kept`.
  virtual bool is_whole(const Snapshot::Text& /*text*/, std::span<const std::uint64_t> /*kept*/) const {
    return true;
  }
  /// The snapshot's sequences were restored, and its cells are now `cells`. Returns the rows to write.
  virtual std::vector<std::int32_t> restored(const Snapshot& snapshot, std::span<const std::int32_t> cells,
                                             std::span<const std::uint64_t> kept) = 0;

  virtual std::int64_t max_rows_each() const = 0;  ///< The most rows that a sequence keeps between steps.
  virtual int pages_touched() const { return 0; }  ///< Of caches by cells: that were ever in use.
  /// Whether all counts agree; for tests and audits. Costs the size of the cache.
  virtual bool consistent() const = 0;
};

}  // namespace weft::kv
