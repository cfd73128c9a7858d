#pragma once
// Copies sequences between a context's cache and stored blocks, a bounded number of bytes in each step.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/batching/text_origin.h"
#include "engine/tiers/block_store.h"
#include "weft/cache_tiers.h"
#include "weft/context.h"

namespace weft::engine {

/// A prefix must save more tokens than this to be stored or restored.
inline constexpr int kWorthRestoring = 32;

/// What a waiting stream restores of its prompt.
struct RestorePlan {
  std::uint64_t listing = 0;  ///< The listing of the folder that it waits for.
  bool is_made = false;
  std::vector<Symbol> text = {};
  std::vector<StoredPiece> pieces = {};
};

/// Used by the batcher's thread.
class PrefixTiers {
 public:
  /// The context must outlive it. Throws Error kInvalidArgument for negative limits.
  PrefixTiers(Context& context, const CacheTiers& tiers);

  /// A step begins: so many bytes may be copied in it.
  void begin_step();
  bool has_files() const { return store_.has_files(); }

  // --- Out of the cache

  /// Stores the missing blocks of an intact sequence. It copies them from the device at once. `n_done` is
  /// the number of tokens that were stored or given up before; the work begins there. Returns the new number,
  /// which is less than all if this step may copy no more bytes, or if files must be written first. All
  /// stored blocks count as used. Throws what saving a sequence throws.
  int store(SeqId seq, std::span<const Token> tokens, const TextOrigin& origin, int n_done);

  // --- Into the cache

  /// Fills in the plan for a prompt of which the cache has `n_cached` tokens. False while the folder is being
  /// listed. Short prompts wait only for the first listing.
  bool make(RestorePlan& plan, std::span<const Token> text, const TextOrigin& origin, int n_cached);
  /// The length of the prefix that the plan restores.
  static int reach(const RestorePlan& plan);
  /// Whether this step may restore more.
  bool may_copy() const { return budget_ > 0; }
  /// The state of a piece, in memory (kReady), on its way, or gone.
  BlockStore::Taken take(const RestorePlan& plan, const StoredPiece& piece);
  /// A piece was restored.
  void count_restored(const BlockStore::Taken& taken, int n_tokens);
  /// A piece cannot be restored. `is_damaged`: its file is removed.
  void drop(const StoredPiece& piece, const char* why, bool is_damaged) {
    store_.drop(piece.own, why, is_damaged);
  }

  void wait() { store_.wait(std::chrono::milliseconds(5)); }
  CacheTierStats stats() const;

 private:
  base::Hash128 root_of(const TextOrigin& origin) const;

  Context& context_;
  const bool cuts_anywhere_;
  const int max_cut_;  // BlockStore::find
  BlockStore store_;
  std::int64_t budget_ = 0;
  CacheTierStats counts_;
};

}  // namespace weft::engine
