#pragma once
// A draft: a tree of guessed tokens, so that a step can check several continuations. Each node has its
// probability of being right. A node is worth its row of the step while that probability is high enough.
#include <functional>
#include <span>
#include <vector>

#include "weft/types.h"

namespace weft::engine {

/// Recent acceptance rates of one stream's drafts, and the limits of its next draft.
struct DraftOdds {
  double right = 0.6;       ///< Probability that a first guess is right ...
  double other = 0.3;       ///< ... and a further guess, if the guesses before it were wrong.
  double least = 0.0;       ///< Nodes below this probability are not worth their row.
  double fork_price = 1.0;  ///< A guess that starts a new branch must be worth this factor more.
  int n_max = 0;            ///< Maximum number of nodes.
  int n_leaves = 1;         ///< Maximum number of branches.
};

class DraftTree {
 public:
  static constexpr int kRoot = -1;  ///< The stream's last token.
  struct Node {
    Token token;
    int parent;
    int rank;  ///< Index among its siblings: the first guess is 0.
    double chance;
  };

  void begin(const DraftOdds& odds);
  void clear() { nodes_.clear(); }
  bool empty() const { return nodes_.empty(); }
  int size() const { return static_cast<int>(nodes_.size()); }
  int n_max() const { return odds_.n_max; }  ///< Maximum number of nodes.
  /// Parents come before their children.
  std::span<const Node> nodes() const { return nodes_; }

  /// The child with this token. It is created if it is worth a row and there is room; kNone otherwise.
  static constexpr int kNone = -2;
  int grow(int parent, Token token);
  /// Whether another child would be worth its row.
  bool grows(int parent) const;
  /// The child with this token, or kNone.
  int child(int parent, Token token) const;
  int n_children(int parent) const;
  /// Appends another tree: its root is this tree's last node.
  void graft(const DraftTree& tail);
  /// Keeps the first n nodes.
  void cut(int n);
  /// Keeps the nodes for which `keep(path, token)` is true and whose parents are kept. `path` has the tokens
  /// above the node.
  void keep_if(const std::function<bool(std::span<const Token> path, Token token)>& keep);
  /// The tokens from below the root down to and including the node.
  void path_to(int node, std::vector<Token>& path) const;

  /// The last node of each branch. The first branch consists of the first guesses.
  std::vector<int> leaves() const;
  /// Whether `node` is on the branch that ends with `leaf`.
  bool leads_to(int node, int leaf) const;

 private:
  double chance_of_next(int parent) const;

  std::vector<Node> nodes_;
  DraftOdds odds_;
};

}  // namespace weft::engine
