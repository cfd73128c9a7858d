#pragma once
// Divides a batch into ubatches, one for each run of the plan, and finds cells for their tokens.
#include <cstdint>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "engine/context/kv_cache.h"
#include "weft/context.h"

namespace weft::engine {

/// A part of the batch that one run of the plan computes.
struct Ubatch {
  int begin = 0, end = 0;  ///< Items.
  int n_outputs = 0;
};

/// All arguments must outlive it.
class UbatchPlacer {
 public:
  UbatchPlacer(KvCache::Impl& cache, int n_outputs)
      : cache_(cache), n_outputs_(n_outputs), seen_(to_size(cache.sequences().n_sequences())) {}

  /// Starts a batch, whose items have these free positions. A ubatch has at most n_ubatch of them.
  void begin(const Batch& batch, std::span<const kv::SeqPos> positions, int n_ubatch);
  const kv::SeqPos& at(int item) const { return positions_[to_size(item)]; }
  std::int32_t cell(int item) const { return cells_[to_size(item)]; }
  /// The last ubatch's items; the caller adds the cells that are hidden from them.
  kv::PlacedItems items() const;
  const Ubatch& ubatch() const { return ubatch_; }  ///< The last one that was placed.

  /// Takes the cells of the batch's next ubatch, and logs the resulting moves (kv/move_log.h). Ubatches are
  /// placed one by one, because attention reads the sequences as they are when the ubatch runs. An item whose
  /// cells conflict with those of earlier items begins the next ubatch. False if the cache is full.
  ///
  /// Items that look ahead (ItemOptions::attend_to) must be in the ubatch of the items that they see, or in a
  /// later one. Otherwise throws Error at the items that they see.
  bool place(const Batch& batch, int begin);
  /// Gives back the cells that the batch's items have taken so far.
  void give_back(const Batch& batch) { give_back(batch, 0, batch.size()); }

 private:
  enum class Taken : std::uint8_t { kYes, kNextUbatch, kCacheFull };
  /// Takes cells for items [begin, limit), up to the size of a ubatch. ubatch_.end is the first item without
  /// a cell.
  Taken place_up_to(const Batch& batch, int begin, int limit);
  Taken take(const Batch& batch, int i);
  void give_back(const Batch& batch, int begin, int end);
  void check_what_is_seen(const Batch& batch);

  KvCache::Impl& cache_;
  int n_ubatch_ = 1;  // Of the batch.
  const int n_outputs_;
  std::vector<kv::SeqPos> positions_;  // Of the batch's items ...
  std::vector<std::int32_t> cells_;    // ... and their cells.
  Ubatch ubatch_;
  /// By sequence of the batch: how far items of earlier ubatches see, and which item sees farthest.
  struct Seen {
    Pos end = 0;
    int item = 0;
  };
  std::vector<Seen> seen_;
};

}  // namespace weft::engine
