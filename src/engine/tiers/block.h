#pragma once
// Blocks: the unit in which prefixes are stored outside of the KV cache.
//
// A block is a part of a sequence, with its keys and values as a saved state (states/format.h). In models
// whose sequences can be cut anywhere, a sequence is a chain of blocks of kBlockTokens tokens, and the last
// one may be shorter. Sequences with a common prefix share its blocks. In other models a block is a whole
// sequence.
//
// A block is identified by its symbols and its parent: the hash of all that precedes it, down to a root. The
// root is a hash of the sequence's adapters.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/hash.h"
#include "weft/graph/extent.h"

namespace weft::engine {

/// A token's id, or a negative hash of the image or audio part that takes its place. Unlike the ids of parts,
/// symbols mean the same in all processes.
using Symbol = std::int64_t;

/// Whole pages, so that the restored tokens are in the same lanes as the computed ones.
inline constexpr int kBlockTokens = 4 * kPageCells;

struct Block {
  base::Hash128 parent;
  std::vector<Symbol> symbols;
};

/// The name of a block, which is the parent of the blocks that follow.
inline base::Hash128 block_hash(const base::Hash128& parent, std::span<const Symbol> symbols) {
  base::Hasher hash;
  hash.add_value(parent);
  hash.add_value(symbols.size());
  hash.add(std::as_bytes(symbols));
  return hash.result();
}

using StateBytes = std::shared_ptr<const std::vector<std::byte>>;

}  // namespace weft::engine
