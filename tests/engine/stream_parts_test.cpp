// The parts of a stream: CacheState, PrefillStops, Schedule, DraftState, Ending, PooledEmbedding.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "engine/batching/cache_state.h"
#include "engine/batching/draft_state.h"
#include "engine/batching/prefill_stops.h"
#include "engine/batching/schedule.h"
#include "engine/batching/stream_output.h"

namespace weft::engine {
namespace {

TEST(CacheState, CountsTokensThatAreComputedAgain) {
  CacheState state;
  state.take_sequence(3);
  state.begin_with(2);
  EXPECT_EQ(state.add_computed(5), 0);
  EXPECT_EQ(state.n_computed(), 7);
  state.lose_tokens();
  EXPECT_EQ(state.n_reached(), 7);
  EXPECT_EQ(state.add_computed(4), 4);
  EXPECT_EQ(state.add_computed(4), 3);  // The eighth token is new.
  EXPECT_EQ(state.n_reached(), 8);
}

TEST(CacheState, CachedTokensCountAsReached) {
  CacheState state;
  state.begin_with(9);
  EXPECT_EQ(state.n_reached(), 9);
  EXPECT_EQ(state.add_computed(1), 0);
}

TEST(CacheState, ContextShiftForgetsWhatWasReached) {
  CacheState state;
  state.add_computed(10);
  state.set_shifted();
  state.drop(4);
  EXPECT_TRUE(state.shifted());
  EXPECT_EQ(state.n_computed(), 6);
  EXPECT_EQ(state.add_computed(2), 0);
}

TEST(CacheState, GivesUpItsSequenceOnce) {
  CacheState state;
  EXPECT_FALSE(state.has_sequence());
  state.take_sequence(0);
  EXPECT_TRUE(state.has_sequence());
  EXPECT_EQ(state.give_up_sequence(), 0);
  EXPECT_FALSE(state.has_sequence());
  EXPECT_EQ(state.give_up_sequence(), -1);
}

TEST(CacheState, LandsOnceAndNotesItsSourceOnce) {
  CacheState state;
  EXPECT_FALSE(state.land());
  state.start(2);
  EXPECT_EQ(state.n_in_flight(), 2);
  EXPECT_TRUE(state.land());
  EXPECT_FALSE(state.land());
  EXPECT_TRUE(state.note_source());
  EXPECT_FALSE(state.note_source());
}

TEST(PrefillStops, TheSmallestLimitCounts) {
  PrefillStops stops;
  EXPECT_EQ(stops.limit(0, 100), 100);
  stops.add(40);
  stops.add(64);
  EXPECT_EQ(stops.next(), 40);
  EXPECT_EQ(stops.limit(0, 100), 40);
  EXPECT_EQ(stops.limit(30, 100), 10);
  EXPECT_EQ(stops.limit(30, 5), 5);
  EXPECT_EQ(stops.limit(40, 100), 100) << "it was reached";
  stops.clear_next();
  EXPECT_EQ(stops.limit(0, 100), 100);
}

TEST(Schedule, PausesFromTheFirstPauseOn) {
  const Clock::time_point start{};
  const auto after = [&](int ms) { return start + std::chrono::milliseconds(ms); };
  Schedule schedule({5, 1});
  EXPECT_FALSE(schedule.paused_for(0.0, after(1)));
  schedule.pause(after(10));
  schedule.pause(after(50));
  EXPECT_TRUE(schedule.paused());
  EXPECT_FALSE(schedule.paused_for(30.0, after(39)));
  EXPECT_TRUE(schedule.paused_for(30.0, after(40)));
  schedule.resume();
  EXPECT_FALSE(schedule.paused());
  EXPECT_LT(schedule.key(), Schedule({5, 2}).key());
  EXPECT_LT(schedule.key(), Schedule({6, 0}).key());
}

TEST(DraftState, LearnsFromFirstGuesses) {
  DraftState state;
  state.tree().begin({.right = 0.9, .n_max = 3});
  const int first = state.tree().grow(DraftTree::kRoot, 7);
  state.tree().grow(first, 8);
  const double before = state.odds().right;
  state.learn(DraftTree::kRoot, first);
  EXPECT_GT(state.odds().right, before);
  const double right = state.odds().right;
  state.learn(first, DraftTree::kNone);
  EXPECT_LT(state.odds().right, right);
  EXPECT_EQ(state.forced_right(), 1.0);
}

TEST(DraftState, LearnsForcedTokensApart) {
  DraftState state;
  state.tree().begin({.right = 1.0, .n_max = 3});
  const int first = state.tree().grow(DraftTree::kRoot, 7);
  state.set_forced();
  const int guess = state.tree().grow(first, 8);
  const double odds = state.odds().right;
  state.learn(DraftTree::kRoot, DraftTree::kNone);
  EXPECT_LT(state.forced_right(), 1.0);
  EXPECT_EQ(state.odds().right, odds);
  const double forced = state.forced_right();
  state.learn(first, guess);
  EXPECT_EQ(state.forced_right(), forced);
  EXPECT_GT(state.odds().right, odds);
}

TEST(DraftState, WaitsWithTheNextProbe) {
  DraftState state;
  EXPECT_TRUE(state.wants_probe());
  state.tree().begin({.right = 0.9, .n_max = 1});
  state.tree().grow(DraftTree::kRoot, 7);
  state.learn(DraftTree::kRoot, DraftTree::kNone);
  int n = 0;
  while (!state.wants_probe()) ++n;
  EXPECT_EQ(n, 24);
}

TEST(DraftState, LearnsNothingWithoutGuesses) {
  DraftState state;
  const double odds = state.odds().right;
  state.learn(DraftTree::kRoot, DraftTree::kNone);
  EXPECT_EQ(state.odds().right, odds);
  EXPECT_TRUE(state.wants_probe());
}

TEST(Ending, TheFirstEndCounts) {
  Ending ending;
  ending.deliver();
  EXPECT_FALSE(ending.delivered()) << "nothing has ended";
  EXPECT_TRUE(ending.end(StopReason::kLength));
  EXPECT_FALSE(ending.end(StopReason::kTimeout));
  EXPECT_FALSE(ending.fail("too late", true));
  EXPECT_EQ(ending.reason(), StopReason::kLength);
  EXPECT_EQ(ending.take_error(), "");
  EXPECT_FALSE(ending.not_numbers());
  ending.deliver();
  EXPECT_TRUE(ending.delivered());
}

TEST(Ending, KeepsTheError) {
  Ending ending;
  EXPECT_TRUE(ending.fail("the device is lost"));
  EXPECT_EQ(ending.reason(), StopReason::kError);
  EXPECT_EQ(ending.take_error(), "the device is lost");
}

TEST(StreamOutput, PooledEmbeddingIsTheMean) {
  PooledEmbedding pooled;
  EXPECT_TRUE(pooled.mean().empty());
  const std::vector<float> one = {1.0f, 2.0f}, two = {2.0f, 6.0f};
  pooled.add(one);
  pooled.add(two);
  EXPECT_EQ(pooled.n(), 2);
  EXPECT_EQ(pooled.mean(), (std::vector<float>{1.5f, 4.0f}));
}

}  // namespace
}  // namespace weft::engine
