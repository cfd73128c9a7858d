#include "kv/window_pages.h"

#include <gtest/gtest.h>

#include "kv/sequences_testing.h"

namespace weft::kv {
namespace {

TEST(WindowPages, TextThatMovesOnKeepsItsWindowOnly) {
  Fixture f(10000, 2, 200);
  f.keep_windows(100, 30);
  for (int i = 0; i < 150; ++i) {
    ASSERT_TRUE(f.take_all(0, 64));
    f.windows->evict_now_and_then();
    ASSERT_LE(f.windows->n_in_use(), 5);
  }
  EXPECT_LE(f.windows->n_touched(), 5);
  const Pos next = f.sequences.next_pos(0);
  for (Pos n = 0; n <= 30; ++n) EXPECT_TRUE(f.windows->can_remove(0, next - n, kEndOfPositions)) << n;
  EXPECT_FALSE(f.windows->can_remove(0, next - 500, kEndOfPositions));
  EXPECT_FALSE(f.windows->can_copy(0, 1, 0, next - 500));
  EXPECT_TRUE(f.windows->can_copy(0, 1, 0, next));
  EXPECT_TRUE(f.windows->can_remove(0, 0, kEndOfPositions));
  // A copy that does not advance keeps the pages that its own window reaches.
  ASSERT_TRUE(f.sequences.copy(0, 1, 0, next));
  ASSERT_TRUE(f.take_all(0, 300));
  f.windows->evict();
  EXPECT_TRUE(f.windows->can_copy(0, 1, 0, next));
  f.check_windows(100);
  f.sequences.keep(0);
  f.windows->evict();
  EXPECT_FALSE(f.windows->can_copy(0, 1, 0, next));
  // Cells that fill a gap keep the cells that they see until the batch is done.
  f.sequences.remove(0, 0, kEndOfPositions);
  f.windows->evict();
  EXPECT_EQ(f.windows->n_in_use(), 0);
  // An abandoned batch leaves the sequence unchanged, for any length of the batch.
  ASSERT_TRUE(f.take_all(0, 500));
  f.windows->begin_batch(0, 500);
  ASSERT_TRUE(f.take_all(0, 1000));
  f.windows->evict();
  EXPECT_TRUE(f.windows->can_remove(0, 500, kEndOfPositions));
  EXPECT_FALSE(f.windows->can_remove(0, 900, kEndOfPositions));
  f.windows->end_batch();
  f.windows->evict();
  EXPECT_FALSE(f.windows->can_remove(0, 500, kEndOfPositions));
}

}  // namespace
}  // namespace weft::kv
