#include "engine/batching/draft_state.h"

#include <algorithm>
#include <cstddef>

#include "base/to_size.h"

namespace weft::engine {
namespace {

constexpr double kRate = 0.12;
constexpr int kProbeEvery = 24;

}  // namespace

void DraftState::learn(int node, int right) {
  const int n_guesses = tree_.n_children(node);
  if (n_guesses == 0) return;
  if (node + 1 < n_forced_) {
    forced_right_ += kRate * ((right != DraftTree::kNone ? 1.0 : 0.0) - forced_right_);
    return;
  }
  learned_ = true;
  // Each guess counts as a trial, up to the accepted one.
  const int rank = right == DraftTree::kNone ? n_guesses : tree_.nodes()[to_size(right)].rank;
  odds_.right += kRate * ((rank == 0 ? 1.0 : 0.0) - odds_.right);
  for (int i = 1; i <= std::min(rank, n_guesses - 1); ++i)
    odds_.other += kRate * ((i == rank ? 1.0 : 0.0) - odds_.other);
  n_until_probe_ = kProbeEvery;
}

}  // namespace weft::engine
