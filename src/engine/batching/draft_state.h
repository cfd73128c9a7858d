#pragma once
// The draft of one stream: the guesses of this step, the sequences of their branches, and the acceptance
// rates learned from earlier drafts.
#include <vector>

#include "engine/batching/draft_tree.h"
#include "weft/types.h"

namespace weft::engine {

class DraftState {
 public:
  // --- The draft of this step

  DraftTree& tree() { return tree_; }
  const DraftTree& tree() const { return tree_; }
  /// The first nodes, which the constraint forces.
  int n_forced() const { return n_forced_; }
  /// All nodes so far are forced.
  void set_forced() { n_forced_ = tree_.size(); }
  /// Begins a step without a draft.
  void clear() {
    tree_.clear();
    n_forced_ = 0;
  }
  /// A sequence for each leaf, the stream's own first. Empty if the draft is not in a batch.
  std::vector<SeqId>& branches() { return branches_; }
  const std::vector<SeqId>& branches() const { return branches_; }
  /// The draft was checked or dropped, and its branches hold no cells.
  void drop() {
    branches_.clear();
    tree_.clear();
  }

  // --- Acceptance rates

  /// Recent probability that a forced token was drawn.
  double forced_right() const { return forced_right_; }
  /// Recent acceptance rates of guesses.
  DraftOdds& odds() { return odds_; }
  /// Sets the rates, until a guess was checked.
  void expect(double right, double other) {
    if (learned_) return;
    odds_.right = right;
    odds_.other = other;
  }
  /// Counts a step without a draft. True if a draft should be tried again.
  bool wants_probe() { return n_until_probe_-- <= 0; }
  /// The token after `node` was drawn: `right` is the guess that it equals, or DraftTree::kNone.
  void learn(int node, int right);

 private:
  DraftTree tree_;
  std::vector<SeqId> branches_;
  int n_forced_ = 0;
  double forced_right_ = 1.0;
  DraftOdds odds_;
  bool learned_ = false;
  int n_until_probe_ = 0;  // Steps until a draft is tried again.
};

}  // namespace weft::engine
