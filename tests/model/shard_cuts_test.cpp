// The bounds of the pieces that several devices compute.
#include "model/shard_cuts.h"

#include <gtest/gtest.h>

namespace weft::model {
namespace {

TEST(ShardCuts, CutBetweenGroupsByShares) {
  EXPECT_EQ(cut(64, 4, {1.0, 1.0}), (Bounds{32, 64}));
  EXPECT_EQ(cut(64, 4, {3.0, 1.0}), (Bounds{48, 64}));
  EXPECT_EQ(cut(40, 0, {1.0, 1.0}), (Bounds{16, 40})) << "pieces of 16 rows; the last device has the rest";
  EXPECT_EQ(cut(64, 4, {1.0, 1.0, 0.0}), (Bounds{32, 64, 64}));
  EXPECT_TRUE(cut(64, 1, {1.0, 1.0}).empty());
  EXPECT_TRUE(cut(31, 0, {1.0, 1.0}).empty());
}

TEST(ShardCuts, BoundsScaleToOtherWidths) {
  const Bounds heads = cut(4, 4, {1.0, 3.0});
  EXPECT_EQ(heads, (Bounds{1, 4}));
  EXPECT_EQ(scaled(heads, 64), (Bounds{16, 64}));
  EXPECT_EQ(begin_of(heads, 1), 1);
  EXPECT_EQ(size_of(heads, 1), 3);
  EXPECT_TRUE(between({16, 64}, 16));
  EXPECT_FALSE(between({16, 64}, 32));
}

}  // namespace
}  // namespace weft::model
