#pragma once
// Finds the sequences that share a prefix with given tokens: a radix tree over token ids. It compares the
// tokens themselves, not hashes.
//
// There is one tree for each origin (text_origin.h).
//
// A holder is a sequence with tokens, or at least a source, in the cache. A node is a run of tokens that all
// holders below it share. A holder ends at the end of a node. Nodes without holders are removed. A node with
// one child in which no holder ends is joined with that child. So the tree has at most two nodes for each
// holder.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "engine/batching/text_origin.h"
#include "weft/types.h"

namespace weft::engine {

class PrefixIndex {
 public:
  explicit PrefixIndex(int n_holders);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  /// Appends tokens to a holder of this origin. A holder with a source exists before its first token. Takes
  /// time linear in the added tokens. If this throws (memory), only clear() may follow.
  void append(SeqId holder, std::span<const Token> tokens, const TextOrigin& origin = {});
  /// Removes the holder; does nothing if it has no tokens. Needs no memory.
  void remove(SeqId holder);

  /// Removes all holders, also after a failed append(). Needs no memory.
  void clear();

  struct Match {
    SeqId holder = -1;  ///< -1: no holder begins with the first token.
    int n = 0;          ///< Tokens in common.
  };
  /// The holder of this origin with the longest common prefix. Takes time linear in that prefix.
  Match find(std::span<const Token> text, const TextOrigin& origin = {}) const;
  /// The same among the holders for which `usable(holder, n)` is true, where n is the length of the common
  /// prefix. Calls `usable` at most once for each holder.
  Match find(std::span<const Token> text, const TextOrigin& origin,
             const std::function<bool(SeqId, int)>& usable) const;
  /// Any holder of this origin; -1: there is none.
  SeqId find_any(const TextOrigin& origin) const;

  bool knows(SeqId holder) const { return end_of(holder) != nullptr; }  ///< It has tokens or a source.
  /// The origin of a known holder.
  const TextOrigin& origin(SeqId holder) const;
  /// The holder's first n tokens.
  std::vector<Token> text(SeqId holder, int n) const;
  int size(SeqId holder) const { return sizes_[to_size(holder)]; }
  /// Tokens of these holders; shared ones count once. Takes time linear in their nodes.
  std::int64_t n_tokens_of(std::span<const SeqId> holders) const;
  /// Whether this holder is a prefix of another one.
  bool covered(SeqId holder) const;
  /// Whether all tokens of `prefix` are the first ones of `holder`. Takes time linear in the nodes of
  /// `holder`.
  bool begins_with(SeqId holder, SeqId prefix) const;
  /// Whether another holder has exactly the same tokens.
  bool doubled(SeqId holder) const;
  int n_nodes() const { return n_nodes_; }

 private:
  struct Node;

  /// Null if no holder has this origin.
  const Node* root_of(const TextOrigin& origin) const;
  /// Splits the node's run after n tokens; the rest becomes its only child.
  void split(Node& node, std::size_t n);
  /// Joins this node with its only child if no holder ends between them and there is memory.
  void join(Node& node);
  Node* end_of(SeqId holder) const { return ends_[to_size(holder)]; }

  std::map<TextOrigin, std::unique_ptr<Node>> roots_;  // Of all holders.
  std::vector<Node*> ends_;                            // By holder: the node where it ends, or null.
  std::vector<int> sizes_;
  int n_nodes_ = 0;
};

}  // namespace weft::engine
