// The inbox of a service and the states of responses, without a service's thread.
#include "engine/batching/service_inbox.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "engine/batching/response_state.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

using std::chrono::milliseconds;

class ServiceInboxTest : public testing::Test {
 protected:
  Submission submission(int n = 1, std::size_t n_prompt = 4) const {
    return {std::make_shared<ResponseState>(n, 8, wakeup), std::vector<Token>(n_prompt, 1), {.n = n}};
  }
  /// Fills `news` with the thread's next work, without waiting for more.
  bool take(bool idle = false) {
    news = {};
    return inbox.take(news, true, idle, std::nullopt);
  }

  std::shared_ptr<Wakeup> wakeup = std::make_shared<Wakeup>();
  ServiceInbox inbox{wakeup, {.n_waiting = 3}, {}};
  ServiceInbox::News news;
};

TEST_F(ServiceInboxTest, RequestsComeInOrderWithIds) {
  inbox.submit(submission());
  inbox.submit(submission(2));
  ASSERT_TRUE(take());
  ASSERT_EQ(news.submissions.size(), 2u);
  EXPECT_EQ(news.submissions[0].state->id(), 1);
  EXPECT_EQ(news.submissions[1].state->id(), 2);
  EXPECT_FALSE(news.attention);
  ASSERT_TRUE(take());
  EXPECT_TRUE(news.submissions.empty());
}

TEST_F(ServiceInboxTest, NewRequestsCountAsWaiting) {
  inbox.submit(submission(2));
  EXPECT_THROW(inbox.submit(submission(2)), OverloadedError);
  EXPECT_EQ(inbox.stats().n_rejected, 1);
  // The thread has taken them, and admits them at once.
  ASSERT_TRUE(take());
  inbox.publish(std::nullopt, 0, 0);
  inbox.submit(submission(2));
  // Requests that were not taken yet still count after a publication.
  inbox.publish(std::nullopt, 0, 0);
  EXPECT_THROW(inbox.submit(submission(2)), OverloadedError);
  ASSERT_TRUE(take());
  ASSERT_EQ(news.submissions.size(), 1u);
  EXPECT_EQ(news.submissions[0].state->id(), 2) << "a refused request takes no id";
}

TEST_F(ServiceInboxTest, PublishesStatistics) {
  BatcherStats stats;
  stats.n_steps = 7;
  stats.n_waiting = 100;
  inbox.publish(stats, 2, 20);
  EXPECT_EQ(inbox.stats().n_steps, 7);
  EXPECT_EQ(inbox.stats().n_waiting, 2);
  inbox.publish(std::nullopt, 3, 30);
  EXPECT_EQ(inbox.stats().n_steps, 7);
  EXPECT_EQ(inbox.stats().n_waiting_tokens, 30);
}

TEST_F(ServiceInboxTest, DrainRefusesNewRequestsAndWaitsForOpenOnes) {
  inbox.submit(submission());
  EXPECT_FALSE(inbox.drain(milliseconds(0)));
  EXPECT_THROW(inbox.submit(submission()), Error);
  ASSERT_TRUE(take(true));
  EXPECT_FALSE(inbox.drain(milliseconds(0))) << "the thread has a new request";
  ASSERT_TRUE(take(true));
  EXPECT_TRUE(inbox.drain(milliseconds(0)));
  EXPECT_TRUE(inbox.call([] {})) << "calls go on until the end";
}

TEST_F(ServiceInboxTest, EndLetsTheThreadEnd) {
  bool called = false;
  EXPECT_TRUE(inbox.call([&] { called = true; }));
  inbox.submit(submission());
  inbox.end();
  EXPECT_FALSE(inbox.call([] {}));
  EXPECT_THROW(inbox.submit(submission()), Error);
  EXPECT_FALSE(take());
  EXPECT_EQ(news.submissions.size(), 1u);
  EXPECT_EQ(news.calls.size(), 1u);
  EXPECT_FALSE(called);
  inbox.set_ended();
  inbox.wait_until_ended();
}

TEST_F(ServiceInboxTest, FlagsOfResponsesWakeTheThread) {
  const Submission one = submission();
  one.state->cancel();
  ASSERT_TRUE(take());
  EXPECT_TRUE(news.attention);
  one.state->cancel();  // Again: nothing is new.
  ASSERT_TRUE(take());
  EXPECT_FALSE(news.attention);
}

Output output_of(const std::vector<OutputToken>& tokens, const char* text, bool done = false) {
  return {.text = text, .tokens = tokens, .done = done, .stop = StopReason::kLength};
}

TEST(ResponseState, TakesOutputAsOneChunk) {
  ResponseState state(1, 8, std::make_shared<Wakeup>());
  const std::vector<OutputToken> tokens = {{5}, {6}};
  Output chunk;
  EXPECT_EQ(state.poll(chunk, milliseconds(0)), Response::Poll::kNothingYet);
  EXPECT_TRUE(state.add(output_of(tokens, "ab")));
  EXPECT_TRUE(state.add(output_of(tokens, "cd")));
  ASSERT_EQ(state.poll(chunk, milliseconds(0)), Response::Poll::kOutput);
  EXPECT_EQ(chunk.text, "abcd");
  EXPECT_EQ(chunk.tokens.size(), 4u);
  EXPECT_EQ(state.poll(chunk, milliseconds(0)), Response::Poll::kNothingYet);
}

TEST(ResponseState, ShowsTheEndOnlyWhenTold) {
  ResponseState state(1, 8, std::make_shared<Wakeup>());
  EXPECT_TRUE(state.add(output_of({}, "end", true)));
  Output chunk;
  EXPECT_EQ(state.poll(chunk, milliseconds(0)), Response::Poll::kNothingYet);
  EXPECT_TRUE(state.is_over());
  state.show_ends();
  ASSERT_EQ(state.poll(chunk, milliseconds(0)), Response::Poll::kOutput);
  EXPECT_TRUE(chunk.done);
  EXPECT_EQ(chunk.stop, StopReason::kLength);
  EXPECT_EQ(state.poll(chunk, milliseconds(0)), Response::Poll::kEnd);
}

TEST(ResponseState, CancelRefusesOutput) {
  ResponseState state(1, 8, std::make_shared<Wakeup>());
  state.cancel();
  EXPECT_FALSE(state.add(output_of({}, "late")));
}

TEST(ResponseState, CallsTheWaker) {
  ResponseState state(1, 8, std::make_shared<Wakeup>());
  int n_woken = 0;
  state.on_ready([&] { ++n_woken; });
  EXPECT_EQ(n_woken, 0);
  state.add(output_of({}, "a"));
  EXPECT_EQ(n_woken, 1);
  state.on_ready([&] { n_woken += 10; });
  EXPECT_EQ(n_woken, 11) << "there was output already";
  state.on_ready(nullptr);
  state.add(output_of({}, "b"));
  EXPECT_EQ(n_woken, 11);
}

}  // namespace
}  // namespace weft::engine
