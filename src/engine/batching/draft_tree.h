#pragma once
// What is written ahead of a text: a tree of tokens, because where it is not sure how the text goes on, a
// step can check more than one way. Each node carries its chance of being right; a node is worth its row of
// the step as long as that chance is high enough.
#include <functional>
#include <span>
#include <vector>

#include "weft/types.h"

namespace weft::engine {

/// What drafts of one text were worth lately, and where to stop.
struct DraftOdds {
  double right = 0.6;       ///< The chance of a first guess ...
  double other = 0.3;       ///< ... and of a further one where those before it were wrong.
  double least = 0.0;       ///< Nodes below this chance are not worth their row.
  double fork_price = 1.0;  ///< So many times as much has to come of a guess that makes a new branch.
  int n_max = 0;            ///< Nodes, at most.
  int n_leaves = 1;         ///< Branches, at most.
};

class DraftTree {
 public:
  static constexpr int kRoot = -1;  ///< The text's last token.
  struct Node {
    Token token;
    int parent;
    int rank;  ///< Among its siblings: the first guess is 0.
    double chance;
  };

  void begin(const DraftOdds& odds);
  void clear() { nodes_.clear(); }
  bool empty() const { return nodes_.empty(); }
  int size() const { return static_cast<int>(nodes_.size()); }
  /// Parents stand before their children.
  std::span<const Node> nodes() const { return nodes_; }

  /// The child with this token, made if it is worth it and there is room; kNone otherwise.
  static constexpr int kNone = -2;
  int grow(int parent, Token token);
  /// Whether a further child would be worth it.
  bool grows(int parent) const;
  /// The child with this token, or kNone.
  int child(int parent, Token token) const;
  int n_children(int parent) const;
  /// Puts another tree behind the last node: its root is that one.
  void graft(const DraftTree& tail);
  /// Keeps the first n nodes.
  void cut(int n);
  /// Keeps the nodes for which `keep(path, token)` is true, where path are the tokens above them, and whose
  /// parents are kept.
  void keep_if(const std::function<bool(std::span<const Token> path, Token token)>& keep);
  /// The tokens down to a node, from behind the root on, the node's own included.
  void path_to(int node, std::vector<Token>& path) const;

  /// The branches: for each its last node. The first one is that of first guesses from the root on.
  std::vector<int> leaves() const;
  /// Whether `node` is on the branch that ends with `leaf`.
  bool leads_to(int node, int leaf) const;

 private:
  double chance_of_next(int parent) const;

  std::vector<Node> nodes_;
  DraftOdds odds_;
};

}  // namespace weft::engine
