#include "kv/move_log.h"

#include <gtest/gtest.h>

#include "kv/sequences_testing.h"

namespace weft::kv {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

/// What a run is given.
struct Bound {
  MoveLog::Part part;
  Pairs moves, forks, there;
};

Bound begin(MoveLog& log, std::size_t n_at_most) {
  std::vector<std::int32_t> v[10];
  for (auto& values : v) values.resize(n_at_most);
  Bound run;
  run.part = log.begin({v[0], v[1], v[2], v[3], v[4]}, {v[5], v[6], v[7], v[8], v[9]});
  for (std::size_t i = 0; i < static_cast<std::size_t>(run.part.n_moves); ++i) {
    run.moves.emplace_back(v[0][i], v[1][i]);
    run.there.emplace_back(v[5][i], v[6][i]);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(run.part.n_forks); ++i)
    run.forks.emplace_back(v[3][i], v[4][i]);
  return run;
}

TEST(MoveLog, DependentMovesFollowTheUbatchsTokens) {
  MoveLog log(1000);
  log.begin_ubatch();
  log.add({1, 2});
  ASSERT_TRUE(log.store(10));
  log.add({10, 20});  // Reads what the ubatch stores,
  log.add({20, 30});  // what a fork writes,
  log.add({3, 10});   // writes where a token is stored,
  log.add({4, 5});    // and one that has nothing to do with it.
  EXPECT_EQ(log.n_forks(), 3);
  // Cells that tokens or forks have cannot be filled by the same ubatch: read by a fork, too.
  for (const int cell : {10, 20, 30, 3}) EXPECT_FALSE(log.store(cell)) << cell;
  EXPECT_TRUE(log.store(4));
  const Bound run = begin(log, 10);
  EXPECT_TRUE(run.part.last);
  EXPECT_EQ(run.moves, (Pairs{{1, 2}, {4, 5}}));
  EXPECT_EQ(run.forks, (Pairs{{10, 20}, {20, 30}, {3, 10}}));
  log.commit();
  EXPECT_TRUE(log.empty());
  // The ubatch is over: what follows comes before the tokens of the next.
  log.add({10, 20});
  EXPECT_EQ(log.n_forks(), 0);
}

TEST(MoveLog, OverflowingMovesGoFirstAndForksWithTheTokens) {
  MoveLog log(1000);
  for (int i = 0; i < 7; ++i) log.add({i, 100 + i});
  log.begin_ubatch();
  ASSERT_TRUE(log.store(50));
  log.add({50, 60});
  log.add({8, 108});
  Pairs moves;
  for (const std::size_t n : {3u, 3u, 2u}) {
    const Bound run = begin(log, 3);
    EXPECT_EQ(run.moves.size(), n);
    EXPECT_EQ(run.part.last, n == 2u);
    EXPECT_EQ(run.forks.size(), n == 2u ? 1u : 0u);
    moves.insert(moves.end(), run.moves.begin(), run.moves.end());
    log.commit();
  }
  EXPECT_EQ(moves, (Pairs{{0, 100}, {1, 101}, {2, 102}, {3, 103}, {4, 104}, {5, 105}, {6, 106}, {8, 108}}));
  EXPECT_TRUE(log.empty());
}

TEST(MoveLog, DroppedUbatchesLeaveTheirMovesPending) {
  MoveLog log(1000);
  log.begin_ubatch();
  ASSERT_TRUE(log.store(10));
  log.add({10, 20});
  log.drop_ubatch();
  log.begin_ubatch();
  ASSERT_TRUE(log.store(10));
  const Bound run = begin(log, 10);
  EXPECT_EQ(run.moves, (Pairs{{10, 20}}));
  EXPECT_TRUE(run.forks.empty());
}

TEST(MoveLog, OtherCachesGetTheSameMovesElsewhere) {
  MoveLog log(1000);
  log.add({1, 2});
  const auto there = [](const CellMove& move) { return CellMove{move.from + 500, move.to + 500, 0}; };
  log.follow(there);
  log.add({3, 4});
  log.follow(there);
  log.add({5, 6});
  log.follow(there);
  EXPECT_EQ(begin(log, 2).there, (Pairs{{501, 502}, {503, 504}}));
  log.commit();
  log.add({7, 8});
  log.follow(there);
  EXPECT_EQ(begin(log, 2).there, (Pairs{{505, 506}, {507, 508}}));
}

TEST(MoveLog, FailedMovesAreNotRepeatedAndTheirCellsAreUndefined) {
  MoveLog log(4 * kPageCells);
  log.add({1, 65});
  log.add({2, 66});
  log.add({65, 130});  // Reads what the failed run may have written,
  log.add({3, 131});   // and one that does not.
  std::vector<std::uint64_t> unsure(4, 0);
  EXPECT_FALSE(log.abandon(unsure));  // Nothing is under way.
  EXPECT_EQ(unsure, std::vector<std::uint64_t>(4, 0));
  EXPECT_EQ(begin(log, 2).moves, (Pairs{{1, 65}, {2, 66}}));
  EXPECT_TRUE(log.abandon(unsure));
  EXPECT_EQ(unsure, (std::vector<std::uint64_t>{0, bit(1) | bit(2), bit(2), 0}));
  EXPECT_EQ(begin(log, 5).moves, (Pairs{{65, 130}, {3, 131}}));
}

TEST(MoveLog, SequencesThatHoldUnsureCellsAreNotIntactUntilTheyAreEmpty) {
  Fixture f(1000, 3, 16);
  ASSERT_TRUE(f.take_all(0, 70));
  ASSERT_TRUE(f.take_all(2, 10));
  ASSERT_TRUE(f.sequences.copy(0, 1, 0, 70));
  ASSERT_TRUE(f.take(0, 70, 5));
  const SeqPos next{1, 70};
  std::int32_t cell = -1;
  ASSERT_TRUE(f.sequences.take({&next, 1}, {&cell, 1}));  // Gets the last page for its own.
  f.sequences.remove(1, 70, 71);
  Fixture::Inputs inputs;
  EXPECT_EQ(f.sequences.moves().begin(inputs.spans(), {}).n_moves, 6);
  f.sequences.abandon_moves();
  EXPECT_TRUE(f.sequences.intact(0));
  EXPECT_FALSE(f.sequences.intact(1));
  EXPECT_TRUE(f.sequences.intact(2));
  EXPECT_TRUE(f.sequences.moves().empty());
  f.sequences.remove(1, 30, 70);
  EXPECT_FALSE(f.sequences.intact(1));
  f.sequences.remove(1, 0, 30);
  EXPECT_TRUE(f.sequences.intact(1));
  EXPECT_TRUE(f.sequences.consistent());
}

}  // namespace
}  // namespace weft::kv
