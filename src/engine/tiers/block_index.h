#pragma once
// Finds stored blocks by the symbols of a prompt, and by their hashes. It compares the symbols themselves.
//
// Blocks with the same parent are in the order of their symbols. So the block with the longest common prefix
// is next to the place where the prompt would be, and finding it takes logarithmic time.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>

#include "engine/tiers/block.h"

namespace weft::engine {

/// When a block was used. A visit is one walk along a chain of blocks from its root. Within a visit the
/// deeper blocks come first: they are useless without the blocks before them, so they are dropped first.
struct BlockUse {
  std::uint64_t visit = 0;
  int minus_depth = 0;  ///< The number of blocks before it in its chain, negated.
  base::Hash128 own;

  friend bool operator<(const BlockUse& a, const BlockUse& b) {
    return std::tie(a.visit, a.minus_depth, a.own.high, a.own.low) <
           std::tie(b.visit, b.minus_depth, b.own.high, b.own.low);
  }
};

/// What is known of a stored block. It has a state in memory, or a file, or both.
struct BlockEntry {
  enum class File : std::uint8_t {
    kNone,
    kWriting,  ///< To be written from `state`, which stays in memory until then.
    kWritten,
    kReading,  ///< Written, and to be read. Memory for it is reserved.
  };

  base::Hash128 own;
  StateBytes state = nullptr;  ///< Null: it is not in memory.
  std::uint64_t n_bytes = 0;   ///< Of its state.
  File file = File::kNone;
  bool from_disk = false;    ///< `state` was read from its file.
  bool is_touching = false;  ///< Its file is to be marked as used.
  BlockUse last_use = {};    ///< Of a state in memory.

  bool is_queued() const { return file == File::kWriting || file == File::kReading; }
};

/// Used by one thread at a time.
class BlockIndex {
 public:
  struct Found {
    base::Hash128 own;
    int n_common = 0;
    int size = 0;
  };

  /// The block of this parent with the longest common prefix with `text`, at least one symbol.
  std::optional<Found> find(const base::Hash128& parent, std::span<const Symbol> text) const;
  /// The block of this parent from which the longest prefix of `text` can be restored, where a block can be
  /// cut by at most `max_cut` symbols. Compares `text` with a bounded number of blocks.
  std::optional<Found> find_whole(const base::Hash128& parent, std::span<const Symbol> text,
                                  int max_cut) const;
  /// Null: unknown. Valid until the block is erased.
  BlockEntry* entry(const base::Hash128& own);
  /// Adds a block; does nothing if it is known.
  BlockEntry& add(const Block& block, const base::Hash128& own);
  void erase(const base::Hash128& own);
  /// The blocks of this parent whose symbols are a true prefix of `text`.
  std::vector<base::Hash128> prefixes(const base::Hash128& parent, std::span<const Symbol> text) const;
  const Block* block(const base::Hash128& own) const;
  std::size_t size() const { return blocks_.size(); }

 private:
  struct View {
    const base::Hash128& parent;
    std::span<const Symbol> symbols;
  };
  struct Less {
    using is_transparent = void;
    static View view(const Block& block) { return {block.parent, block.symbols}; }
    static View view(const View& view) { return view; }
    bool operator()(const auto& a, const auto& b) const { return less(view(a), view(b)); }
    static bool less(const View& a, const View& b);
  };
  struct HashOf {
    std::size_t operator()(const base::Hash128& hash) const { return hash.low; }
  };
  using Blocks = std::map<Block, BlockEntry, Less>;

  Blocks blocks_;
  std::unordered_map<base::Hash128, Blocks::iterator, HashOf> by_hash_;
};

}  // namespace weft::engine
