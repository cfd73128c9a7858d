#include "engine/batching/draft_tree.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

TEST(DraftTree, BranchesWhereGuessesPartAndSharesWhatTheyHaveInCommon) {
  DraftTree tree;
  tree.begin({.right = 0.5, .other = 0.5, .least = 0.0, .n_max = 8, .n_leaves = 3});
  const int a = tree.grow(DraftTree::kRoot, 10);
  const int b = tree.grow(a, 20);
  EXPECT_EQ(tree.grow(DraftTree::kRoot, 10), a);  // There already.
  const int c = tree.grow(a, 21);
  const int d = tree.grow(DraftTree::kRoot, 11);
  EXPECT_EQ(tree.grow(DraftTree::kRoot, 12), DraftTree::kNone);  // A fourth branch.
  EXPECT_EQ(tree.size(), 4);
  EXPECT_EQ(tree.leaves(), (std::vector<int>{b, c, d}));
  EXPECT_TRUE(tree.leads_to(a, c));
  EXPECT_TRUE(tree.leads_to(DraftTree::kRoot, d));
  EXPECT_FALSE(tree.leads_to(b, c));
  EXPECT_FALSE(tree.leads_to(a, d));
  EXPECT_EQ(tree.child(a, 21), c);
  EXPECT_EQ(tree.child(b, 21), DraftTree::kNone);
  tree.cut(2);
  EXPECT_EQ(tree.leaves(), std::vector<int>{b});
}

TEST(DraftTree, TheBranchOfFirstGuessesComesFirst) {
  DraftTree tree;
  tree.begin({.n_max = 8, .n_leaves = 4});
  const int first = tree.grow(DraftTree::kRoot, 1);
  const int other = tree.grow(DraftTree::kRoot, 2);
  const int behind = tree.grow(first, 3);
  EXPECT_EQ(tree.leaves(), (std::vector<int>{behind, other}));
}

TEST(DraftTree, GrowsAsFarAsItIsWorthIt) {
  DraftTree tree;
  tree.begin({.right = 0.5, .other = 0.4, .least = 0.1, .fork_price = 1.0, .n_max = 64, .n_leaves = 64});
  int node = DraftTree::kRoot, depth = 0;
  while ((node = tree.grow(node, depth)) != DraftTree::kNone) ++depth;
  EXPECT_EQ(depth, 3);                        // 0.5, 0.25, 0.125; then 0.0625
  EXPECT_TRUE(tree.grows(DraftTree::kRoot));  // 0.5 * 0.4
  const int second = tree.grow(DraftTree::kRoot, 100);
  EXPECT_DOUBLE_EQ(tree.nodes()[static_cast<std::size_t>(second)].chance, 0.2);
  EXPECT_TRUE(tree.grows(DraftTree::kRoot));  // 0.5 * 0.6 * 0.4
  tree.grow(DraftTree::kRoot, 101);
  EXPECT_FALSE(tree.grows(DraftTree::kRoot));  // 0.5 * 0.6 * 0.6 * 0.4
}

TEST(DraftTree, ATreeIsPutBehindTheLastNodeOfAnother) {
  DraftTree tree, tail;
  tree.begin({.right = 1.0, .n_max = 8});
  const int last = tree.grow(tree.grow(DraftTree::kRoot, 1), 2);
  tail.begin({.n_max = 8, .n_leaves = 2});
  const int first = tail.grow(DraftTree::kRoot, 3);
  tail.grow(first, 4);
  tail.grow(DraftTree::kRoot, 5);
  tree.graft(tail);
  EXPECT_EQ(tree.size(), 5);
  EXPECT_EQ(tree.n_children(last), 2);
  std::vector<Token> path;
  tree.path_to(tree.child(tree.child(last, 3), 4), path);
  EXPECT_EQ(path, (std::vector<Token>{1, 2, 3, 4}));
  EXPECT_EQ(tree.nodes()[static_cast<std::size_t>(tree.child(last, 5))].rank, 1);
  EXPECT_EQ(tree.leaves().size(), 2u);

  DraftTree empty;
  empty.begin({});
  empty.graft(tail);
  EXPECT_EQ(empty.child(DraftTree::kRoot, 5), 2);
}

}  // namespace
}  // namespace weft::engine
