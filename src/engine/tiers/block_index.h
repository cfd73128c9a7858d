#pragma once
// Finds stored blocks by the symbols of a prompt, and by their hashes. It compares the symbols themselves.
//
// Blocks with the same parent are in the order of their symbols. So the block with the longest common prefix
// is next to the place where the prompt would be, and finding it takes logarithmic time.
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "engine/tiers/block.h"

namespace weft::engine {

/// What is known of a stored block.
struct BlockEntry {
  base::Hash128 own;
  StateBytes state = nullptr;  ///< Null: it is not in memory.
  std::uint64_t n_bytes = 0;   ///< Of its state.
  bool on_disk = false;        ///< It has a file.
  bool is_queued = false;      ///< Its file is to be written, or read.
  bool from_disk = false;      ///< `state` was read from its file.
  std::uint64_t last_use = 0;  ///< The larger, the later.
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
