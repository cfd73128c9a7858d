// Texts saved and restored.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kv/sequences_testing.h"

namespace weft::kv {
namespace {

TEST(Sequences, ARestoredTextIsCutAsItWas) {
  Fixture f(1000, 2, 16);
  ASSERT_TRUE(f.take_all(0, 200));
  f.sequences.remove(0, 10, 60);
  ASSERT_TRUE(f.sequences.shift(0, 60, 200, -50));
  f.carry_out_moves();
  ASSERT_TRUE(f.sequences.divide(0, 0, 150, 3));
  f.carry_out_moves();
  ASSERT_TRUE(f.take_all(0, 5));
  const SeqId zero[] = {0};
  const Fixture::Saved saved = f.save(zero);
  Fixture other(300, 3, 16);
  ASSERT_TRUE(other.take_all(1, 40));
  ASSERT_TRUE(other.take_all(2, 33));
  ASSERT_TRUE(other.restore(Fixture::as(saved, 2)));
  EXPECT_EQ(other.contents(2), f.contents(0));
  EXPECT_TRUE(same(without_pages(other.sequences.extents(2)), without_pages(f.sequences.extents(0))));
  EXPECT_EQ(other.sequences.cells_used(), 40 + static_cast<int>(saved.cells.size()));
  EXPECT_TRUE(other.sequences.consistent());
}

TEST(Sequences, ARestoreThatFindsNoRoomChangesNothing) {
  Fixture f(200, 2, 16);
  ASSERT_TRUE(f.take_all(0, 150));
  const SeqId zero[] = {0};
  const Fixture::Saved saved = f.save(zero);
  f.sequences.remove(0, 0, 90);
  ASSERT_TRUE(f.take_all(1, 130));
  const auto before = f.contents(0), other = f.contents(1);
  EXPECT_FALSE(f.restore(Fixture::as(saved, 0)));
  EXPECT_FALSE(f.restore(Fixture::as(saved, 1)));
  EXPECT_EQ(f.contents(0), before);
  EXPECT_EQ(f.contents(1), other);
  EXPECT_TRUE(f.sequences.consistent());
  f.sequences.remove(0, 90, 100);
  // The cells of the replaced sequence count as free.
  EXPECT_FALSE(f.restore(Fixture::as(saved, 0)));
  EXPECT_TRUE(f.restore(Fixture::as(saved, 1)));
  EXPECT_EQ(f.sequences.cells_used(), 200);
  EXPECT_EQ(f.contents(1).size(), 150u);
  const auto kept = f.contents(0), restored = f.contents(1);
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), restored.begin() + 100, restored.end()));
  EXPECT_TRUE(f.sequences.consistent());
}

TEST(Sequences, ARestoreFindsRoomBetweenOthersLanes) {
  Fixture f(64 * 8, 8, 8);
  const SeqId zero[] = {0};
  ASSERT_TRUE(f.take_all(0, 64));
  f.sequences.remove(0, 8, 64);
  const Fixture::Saved saved = f.save(zero);
  // No page is free, and the saved lanes are free in some.
  f.sequences.remove(0, 0, 64);
  for (SeqId s = 0; s < 8; ++s) {
    for (Pos p : {0, 64})
      for (Pos i = 30; i < 40; ++i) ASSERT_TRUE(f.take(s, p + i, i));
  }
  ASSERT_EQ(f.sequences.pages_free(), 0);
  f.sequences.remove(7, 0, 64);
  ASSERT_TRUE(f.take(6, 200, 1));
  ASSERT_EQ(f.sequences.pages_free(), 0);
  const auto before = f.contents(1);
  ASSERT_TRUE(f.restore(Fixture::as(saved, 7)));
  EXPECT_EQ(f.contents(7).size(), 8u);
  EXPECT_EQ(f.contents(1), before);
  EXPECT_TRUE(f.sequences.consistent());
}

TEST(Sequences, SharedCellsAreSavedOnceAndSharedAgain) {
  Fixture f(1000, 3, 16);
  ASSERT_TRUE(f.take_all(0, 100));
  ASSERT_TRUE(f.sequences.copy(0, 1, 0, 100));
  ASSERT_TRUE(f.sequences.copy(0, 2, 0, 70));
  ASSERT_TRUE(f.take_all(2, 10));
  const SeqId all[] = {0, 1, 2};
  const Fixture::Saved saved = f.save(all);
  const int used = f.sequences.cells_used();
  Fixture other(300, 4, 16);
  ASSERT_TRUE(other.restore(saved));
  EXPECT_EQ(other.sequences.cells_used(), used);
  for (SeqId s = 0; s < 3; ++s) EXPECT_EQ(other.contents(s), f.contents(s));
  EXPECT_TRUE(other.sequences.consistent());
}

TEST(Sequences, SnapshotsThatNoCacheCouldGiveAreNotWellFormed) {
  Fixture f(1000, 1, 16);
  ASSERT_TRUE(f.take_all(0, 100));
  const SeqId zero[] = {0};
  const Snapshot good = f.save(zero).snapshot;
  const auto refused = [&](auto change) {
    Snapshot bad = good;
    change(bad, bad.texts[0].extents);
    return !bad.well_formed();
  };
  using Extents = std::vector<Extent>;
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].mask = 0; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].mask >>= 1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].page = 2; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].page = -1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[1].page = 0; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].divisor = 0; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].divisor = 1 << 21; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].offset = 1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].offset = -1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].base = -1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[1].base = kEndOfPositions - 1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[1].base = 0x7fffffff; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { std::swap(e[0], e[1]); }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e.push_back(e[1]); }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e.pop_back(); }));
  EXPECT_TRUE(refused([](Snapshot& s, Extents&) { s.pages.push_back(0); }));
  EXPECT_TRUE(refused([](Snapshot& s, Extents&) { s.pages[0] &= s.pages[0] - 1; }));
}

}  // namespace
}  // namespace weft::kv
