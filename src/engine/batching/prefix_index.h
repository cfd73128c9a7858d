#pragma once
// Which sequences begin like a given text: a radix tree over token ids. Tokens themselves are compared, never
// hashes.
//
// There is a tree for each origin (text_origin.h).
//
// A holder is a sequence whose first tokens, or the source of whose text, are in the cache. A node is a run
// of tokens that all holders below it share; a holder ends at the end of a node. Nodes without a holder go,
// and a node with one child and no end of its own becomes one with that child: so the tree has at most two
// nodes a holder.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/batching/text_origin.h"
#include "weft/types.h"

namespace weft::engine {

class PrefixIndex {
 public:
  explicit PrefixIndex(int n_holders);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  /// The holder's text goes on, or begins, and is of this origin. One with a source has begun before its
  /// first token. Costs the tokens added. Where this throws (memory), only clear() may follow.
  void append(SeqId holder, std::span<const Token> tokens, const TextOrigin& origin = {});
  /// Forgets the holder's text; nothing where it has none. Needs no memory.
  void remove(SeqId holder);

  /// Forgets all texts, whatever an append that lacked memory has left. Needs none.
  void clear();

  struct Match {
    SeqId holder = -1;  ///< -1: no holder begins with the text's first token.
    int n = 0;          ///< Tokens in common.
  };
  /// A holder of this origin that has the most tokens in common with the text. Costs these.
  Match find(std::span<const Token> text, const TextOrigin& origin = {}) const;
  /// The same where not every holder can serve: one that has the most in common among those for which
  /// `usable(holder, n)` is true of the n tokens that it has in common. Asks each holder once at most.
  Match find(std::span<const Token> text, const TextOrigin& origin,
             const std::function<bool(SeqId, int)>& usable) const;
  /// Some holder of this origin, whatever its text; -1: there is none.
  SeqId find_any(const TextOrigin& origin) const;

  bool knows(SeqId holder) const { return end_of(holder) != nullptr; }  ///< Its text has begun.
  /// Of the holder's text, which has begun.
  const TextOrigin& origin(SeqId holder) const;
  /// The first n tokens of the holder's text.
  std::vector<Token> text(SeqId holder, int n) const;
  int size(SeqId holder) const { return sizes_[static_cast<std::size_t>(holder)]; }
  /// Tokens of these holders' texts, those that several share counted once. Costs the nodes above them.
  std::int64_t n_tokens_of(std::span<const SeqId> holders) const;
  /// Whether another holder has all of this one's text.
  bool covered(SeqId holder) const;
  /// Whether another holder has just the same text.
  bool doubled(SeqId holder) const;
  int n_nodes() const { return n_nodes_; }

 private:
  struct Node;

  /// Null where nobody has such a text.
  const Node* root_of(const TextOrigin& origin) const;
  /// Cuts the node's run after n tokens; what follows becomes its only child.
  void split(Node& node, std::size_t n);
  /// Makes one node of this one and its only child where no holder ends between them (and there is memory).
  void join(Node& node);
  Node* end_of(SeqId holder) const { return ends_[static_cast<std::size_t>(holder)]; }

  std::map<TextOrigin, std::unique_ptr<Node>> roots_;  // Of texts that are there.
  std::vector<Node*> ends_;  // By holder: where its text ends; null for those without.
  std::vector<int> sizes_;
  int n_nodes_ = 0;
};

}  // namespace weft::engine
