#include "engine/batching/draft_tree.h"

#include <algorithm>
#include <cmath>

#include "base/to_size.h"

namespace weft::engine {

void DraftTree::begin(const DraftOdds& odds) {
  nodes_.clear();
  odds_ = odds;
}

int DraftTree::child(int parent, Token token) const {
  for (int i = parent + 1; i < size(); ++i) {
    const Node& node = nodes_[to_size(i)];
    if (node.parent == parent && node.token == token) return i;
  }
  return kNone;
}

int DraftTree::n_children(int parent) const {
  return static_cast<int>(
      std::count_if(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.parent == parent; }));
}

double DraftTree::chance_of_next(int parent) const {
  const double chance = parent == kRoot ? 1.0 : nodes_[to_size(parent)].chance;
  const int rank = n_children(parent);
  if (rank == 0) return chance * odds_.right;
  return chance * (1.0 - odds_.right) * std::pow(1.0 - odds_.other, rank - 1) * odds_.other;
}

bool DraftTree::grows(int parent) const {
  if (size() >= odds_.n_max) return false;
  const bool forks = n_children(parent) > 0;
  if (forks && static_cast<int>(leaves().size()) >= odds_.n_leaves) return false;
  return chance_of_next(parent) >= odds_.least * (forks ? odds_.fork_price : 1.0);
}

int DraftTree::grow(int parent, Token token) {
  const int there = child(parent, token);
  if (there != kNone || !grows(parent)) return there;
  nodes_.push_back({token, parent, n_children(parent), chance_of_next(parent)});
  return size() - 1;
}

void DraftTree::graft(const DraftTree& tail) {
  const int offset = size();
  for (Node node : tail.nodes_) {
    node.parent = node.parent == kRoot ? offset - 1 : node.parent + offset;
    nodes_.push_back(node);
  }
}

void DraftTree::cut(int n) {
  if (n < size()) nodes_.resize(to_size(std::max(n, 0)));
}

void DraftTree::path_to(int node, std::vector<Token>& path) const {
  path.clear();
  for (int at = node; at != kRoot; at = nodes_[to_size(at)].parent) path.push_back(nodes_[to_size(at)].token);
  std::reverse(path.begin(), path.end());
}

void DraftTree::keep_if(const std::function<bool(std::span<const Token>, Token)>& keep) {
  std::vector<int> now_at(nodes_.size(), kNone);
  std::vector<Token> path;
  int n_kept = 0;
  for (int i = 0; i < size(); ++i) {
    Node node = nodes_[to_size(i)];
    if (node.parent != kRoot) node.parent = now_at[to_size(node.parent)];
    if (node.parent == kNone) continue;
    path_to(node.parent, path);  // Kept nodes have smaller indices, so this path is final.
    if (!keep(path, node.token)) continue;
    now_at[to_size(i)] = n_kept;
    nodes_[to_size(n_kept++)] = node;
  }
  cut(n_kept);
}

std::vector<int> DraftTree::leaves() const {
  std::vector<int> result;
  for (int i = 0; i < size(); ++i)
    if (n_children(i) == 0) result.push_back(i);
  // The branch of first guesses contains only nodes of rank 0.
  const auto main = std::find_if(result.begin(), result.end(), [&](int leaf) {
    for (int n = leaf; n != kRoot; n = nodes_[to_size(n)].parent)
      if (nodes_[to_size(n)].rank > 0) return false;
    return true;
  });
  if (main != result.end()) std::rotate(result.begin(), main, main + 1);
  return result;
}

bool DraftTree::leads_to(int node, int leaf) const {
  while (leaf > node) leaf = nodes_[to_size(leaf)].parent;
  return leaf == node;
}

}  // namespace weft::engine
