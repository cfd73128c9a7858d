#pragma once
// Checks batches before a context computes them, and gives each item its position.
#include <span>
#include <utility>
#include <vector>

#include "base/to_size.h"
#include "engine/context/kv_cache.h"
#include "weft/context.h"

namespace weft::engine {

class BatchChecker {
 public:
  /// A pair of items: the first one must not see the other (Batch::hide).
  using HiddenPair = std::pair<int, int>;

  /// All arguments must outlive it.
  BatchChecker(const Model& model, const ContextParams& params, const KvCache::Impl& cache);

  /// Resolves the positions of the batch's items. Throws Error for the first item that cannot be computed.
  void check(const Batch& batch);

  // Of the last batch that passed:
  std::span<const kv::SeqPos> positions() const { return positions_; }  ///< By item.
  std::span<const HiddenPair> hidden() const { return hidden_; }        ///< In the order of the first items.

 private:
  void check_item(const Batch& batch, int i) const;
  /// Checks that sequence `seq` can take a token at `pos` next, after `last` in the same batch.
  void check_position(SeqId seq, Pos pos, Pos last, int item) const;
  void check_shared(const Batch& batch, int i, SeqId other) const;
  void check_hidden(const Batch& batch);
  Pos& last_of(SeqId seq) { return last_pos_[to_size(seq)]; }

  const Model& model_;
  const ContextParams& params_;
  const KvCache::Impl& cache_;
  std::vector<kv::SeqPos> positions_;
  std::vector<HiddenPair> hidden_;
  std::vector<Pos> last_pos_;  // By sequence: its last position in the batch so far, or -1.
};

/// Whether the own sequence of item i holds item j.
bool shares_sequence(const Batch& batch, int i, int j);

}  // namespace weft::engine
