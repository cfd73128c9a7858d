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

  enum class Stored : std::uint8_t { kAll, kLater };
  /// Stores the missing blocks of an intact sequence, from the first one on. kLater: this step may copy no
  /// more bytes, or files must be written first.
  Stored store(SeqId seq, std::span<const Token> tokens, const TextOrigin& origin);

  // --- Into the cache

  /// Fills in the plan. False while the folder is being listed.
  bool make(RestorePlan& plan, std::span<const Token> text, const TextOrigin& origin);
  /// The length of the prefix that the plan restores.
  static int reach(const RestorePlan& plan);
  /// Whether this step may restore more.
  bool may_copy() const { return budget_ > 0; }
  /// The state of a piece, in memory (kReady), on its way, or gone.
  BlockStore::Taken take(const RestorePlan& plan, const StoredPiece& piece);
  /// A piece was restored.
  void count_restored(const BlockStore::Taken& taken, int n_tokens);
  void drop_damaged(const StoredPiece& piece, const char* why) { store_.drop_damaged(piece.own, why); }

  void wait() { store_.wait(std::chrono::milliseconds(5)); }
  CacheTierStats stats() const;

 private:
  base::Hash128 root_of(const TextOrigin& origin) const;
  void copied(std::size_t n_bytes) { budget_ -= static_cast<std::int64_t>(n_bytes); }

  Context& context_;
  const bool cuts_anywhere_;
  const int max_cut_;  // BlockStore::find
  BlockStore store_;
  std::int64_t budget_ = 0;
  double bytes_per_token_ = 0.0;  // Of the last block.
  CacheTierStats counts_;
};

}  // namespace weft::engine
