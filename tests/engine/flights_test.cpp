// Batches in flight, over a runner without devices.
#include "engine/batching/flights.h"

#include <deque>
#include <vector>

#include "engine/batching_testing.h"

namespace weft::engine {
namespace {

/// Runs nothing; it notes the sizes of batches in flight.
class FakeRunner final : public BatchRunner {
 public:
  explicit FakeRunner(int n_at_once) : n_at_once_(n_at_once) {}
  DecodeStatus decode(const Batch&) override {
    ++n_decoded;
    return DecodeStatus::kOk;
  }
  int n_at_once() const override { return n_at_once_; }
  DecodeStatus begin(const Batch& batch) override {
    if (is_full) return DecodeStatus::kCacheFull;
    in_flight.push_back(batch.size());
    return DecodeStatus::kOk;
  }
  DecodeStatus finish() override {
    in_flight.pop_front();
    return DecodeStatus::kOk;
  }
  void drop_begun() noexcept override { in_flight.clear(); }

  std::deque<int> in_flight;
  int n_decoded = 0;
  bool is_full = false;

 private:
  int n_at_once_;
};

class FlightsTest : public testing::Test {
 protected:
  FlightsTest() {
    for (RequestId id = 1; id <= 12; ++id) {
      running.push_back(test::stream_of(id));
      running.back()->prepare();
    }
  }
  StepBatch batch_of_turn() const {
    StepBatch batch;
    for (const StreamPtr& stream : flights.turn()) {
      batch.shares.push_back({stream.get(), batch.size(), 1});
      batch.items.add(1, 0, {.logits = true});
    }
    batch.n_decoding = batch.size();
    return batch;
  }
  StepBatch step(DecodeStatus expected = DecodeStatus::kOk) {
    flights.choose_turn(running);
    StepBatch batch = batch_of_turn();
    EXPECT_EQ(flights.decode(batch), expected);
    return batch;
  }

  std::vector<StreamPtr> running;
  FakeRunner runner{3};
  Flights flights{runner, 12};
};

TEST_F(FlightsTest, OneGroupIsDecodedAtOnce) {
  const StepBatch batch = step();
  EXPECT_EQ(batch.size(), 12);
  EXPECT_EQ(runner.n_decoded, 1);
  EXPECT_TRUE(flights.empty());
}

TEST_F(FlightsTest, GroupsTakeTurns) {
  ASSERT_EQ(flights.count_groups(running), 3u);
  flights.set_groups(3);
  EXPECT_TRUE(step().empty());
  EXPECT_TRUE(step().empty());
  EXPECT_EQ(flights.size(), 2u);
  const StepBatch third = step();
  ASSERT_EQ(third.size(), 4);
  EXPECT_EQ(third.shares.front().stream, running.front().get()) << "the oldest comes first";
  EXPECT_EQ(running.front()->cached.n_in_flight(), 0);
  EXPECT_EQ(running.back()->cached.n_in_flight(), 1);
  EXPECT_EQ(flights.size(), 2u);
}

TEST_F(FlightsTest, GroupsNeedRowsAndStreamsThatCanFly) {
  EXPECT_EQ(flights.count_groups(std::span(running).first(7)), 1u);
  EXPECT_EQ(flights.count_groups(std::span(running).first(8)), 2u);
  running[3]->schedule.pause(Clock::now());
  EXPECT_EQ(flights.count_groups(running), 1u);
  running[3]->schedule.resume();
  running[3]->schedule.set_suspect(true);
  EXPECT_EQ(flights.count_groups(running), 1u);
}

TEST_F(FlightsTest, FullCacheWaitsForTheOldestBatch) {
  flights.set_groups(3);
  step();
  runner.is_full = true;
  const StepBatch batch = step();
  EXPECT_EQ(batch.size(), 4);
  EXPECT_EQ(batch.shares.front().stream, running.front().get());
  EXPECT_TRUE(flights.empty());
  step(DecodeStatus::kCacheFull);
}

TEST_F(FlightsTest, StreamsLeaveTheirBatch) {
  flights.set_groups(3);
  step();
  flights.leave(*running[1]);
  EXPECT_EQ(running[1]->cached.n_in_flight(), 0);
  int n = 0;
  flights.for_each_stream([&](Stream& stream) { n += &stream == running[1].get() ? 100 : 1; });
  EXPECT_EQ(n, 3);
  StepBatch batch;
  EXPECT_EQ(flights.receive(batch), DecodeStatus::kOk);
  EXPECT_EQ(batch.size(), 4);
  EXPECT_EQ(batch.shares.size(), 3u);
}

TEST_F(FlightsTest, DropForgetsAllBatches) {
  flights.set_groups(3);
  step();
  step();
  flights.drop();
  EXPECT_TRUE(flights.empty());
  EXPECT_TRUE(runner.in_flight.empty());
}

}  // namespace
}  // namespace weft::engine
