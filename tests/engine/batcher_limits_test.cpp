// Limits of requests in a batcher: deadlines, pauses, queues, and the room of one sequence.
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::alone;
using test::Ask;
using test::Collector;
using test::expect_same;
using test::golden;
using test::prompt_of;
using test::random_ask;

TEST(BatcherLimits, DeadlinesEndLateRequests) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 1024, .n_sequences = 2, .n_threads = 1});
  Batcher batcher(context, {.n_running = 1});
  Collector collector;
  const RequestParams endless{.n_predict = -1, .ignore_end = true};
  RequestParams in_time = endless, late_in_queue = endless, late = endless;
  in_time.n_predict = 3;
  in_time.timeout_ms = 1e7;
  late.timeout_ms = 1000.0;
  late_in_queue.queue_timeout_ms = 1000.0;
  RequestParams late_first = late_in_queue;
  late_first.queue_timeout_ms = 0.0;
  late_first.first_token_timeout_ms = 1000.0;
  const RequestId a = collector.submit(batcher, {prompt_of(5, 1), in_time});
  const RequestId b = collector.submit(batcher, {prompt_of(5, 2), late});
  const RequestId c = collector.submit(batcher, {prompt_of(5, 3), late_in_queue});
  const RequestId d = collector.submit(batcher, {prompt_of(5, 4), late_first});
  while (!collector(a).done) batcher.step();
  EXPECT_TRUE(batcher.next_deadline().has_value());
  for (int i = 0; i < 3; ++i) batcher.step();
  std::this_thread::sleep_until(*batcher.next_deadline() + std::chrono::milliseconds(5));
  batcher.run();
  EXPECT_EQ(collector(a).stop, StopReason::kLength);
  EXPECT_EQ(collector(b).stop, StopReason::kTimeout);
  EXPECT_GE(collector(b).tokens.size(), 3u);  // What it has written it keeps.
  EXPECT_EQ(collector(c).stop, StopReason::kTimeout);
  EXPECT_EQ(collector(d).stop, StopReason::kTimeout);
  EXPECT_EQ(batcher.stats().n_timed_out, 3);
  EXPECT_FALSE(batcher.next_deadline().has_value());
  EXPECT_TRUE(batcher.consistent());
}

TEST(BatcherLimits, APausedCompletionKeepsItsCellsUntilTheyAreNeeded) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 256, .n_sequences = 3, .n_threads = 1});
  Batcher batcher(context, {.n_running = 2});
  Collector collector;
  std::mt19937_64 random(8);
  Ask ask = random_ask(*model, random, 40);
  ask.params.n_predict = 40;
  ask.params.ignore_end = true;
  const RequestId id = collector.submit(batcher, ask);
  for (int i = 0; i < 5; ++i) batcher.step();
  const std::size_t n = collector(id).tokens.size();
  batcher.pause(id);
  EXPECT_FALSE(batcher.step());  // Nobody else.
  EXPECT_EQ(collector(id).tokens.size(), n);
  EXPECT_EQ(batcher.stats().n_paused, 1);
  // Others run in the same batch; two that want all of the cache take its cells.
  const RequestId other = collector.submit(batcher, {prompt_of(10, 1), {.n_predict = 5, .ignore_end = true}});
  batcher.run();
  EXPECT_TRUE(collector(other).done);
  EXPECT_EQ(batcher.stats().n_preempted, 0);
  collector.submit(batcher, {prompt_of(200, 2), {.n_predict = 50, .ignore_end = true}});
  batcher.run();
  EXPECT_EQ(batcher.stats().n_preempted, 1);
  EXPECT_EQ(collector(id).tokens.size(), n);
  batcher.resume(id);
  batcher.run();
  expect_same(collector(id), alone(model, ask), "resumed");
  EXPECT_EQ(collector(id).stats.n_preempted, 1);
  EXPECT_GT(collector(id).stats.n_recomputed, 0);
}

TEST(BatcherLimits, PausedRequestsDoNotBlockOthers) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1});
  Batcher batcher(context, {.n_running = 1});
  Collector collector;
  const RequestId id = collector.submit(batcher, {prompt_of(10, 1), {.n_predict = 30, .ignore_end = true}});
  batcher.step();
  batcher.pause(id);
  const RequestId other = collector.submit(batcher, {prompt_of(10, 2), {.n_predict = 3, .ignore_end = true}});
  batcher.run();
  EXPECT_TRUE(collector(other).done);
  EXPECT_FALSE(collector(id).done);
  batcher.cancel(id);
  batcher.run();
  EXPECT_EQ(collector(id).stop, StopReason::kCancelled);
}

TEST(BatcherLimits, FullQueuesRejectWithARetryTime) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1});
  Batcher batcher(context, {.n_running = 1, .limits = {.n_waiting = 4, .n_waiting_tokens = 100}});
  const auto refusal = [&](int n_prompt, int n) -> std::optional<double> {
    try {
      batcher.submit(prompt_of(n_prompt, 1), {.n = n, .n_predict = 2});
      return std::nullopt;
    } catch (const OverloadedError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOverloaded);
      EXPECT_NE(std::string(error.what()).find("try again in"), std::string::npos);
      return error.retry_after_ms;
    }
  };
  EXPECT_FALSE(refusal(10, 3));
  EXPECT_GT(refusal(10, 2).value(), 0.0);
  EXPECT_FALSE(refusal(10, 1));
  EXPECT_TRUE(refusal(10, 1));
  batcher.run();
  EXPECT_FALSE(refusal(200, 1)) << "alone it is taken, whatever the limit of tokens";
  EXPECT_TRUE(refusal(10, 1));
  EXPECT_EQ(batcher.stats().n_rejected, 3);
  batcher.run();
  EXPECT_FALSE(refusal(90, 1));
  batcher.run();
  EXPECT_GT(batcher.stats().first_token.n, 0);
  EXPECT_GT(batcher.stats().queue.percentile_ms(0.5), 0.0);
}

TEST(BatcherLimits, RequestsAreBounded) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1});
  Batcher batcher(context,
                  {.limits = {.n_completions = 8, .n_request_tokens = 100, .n_stops = 3, .stop_bytes = 20}});
  const auto refused = [&](int n_prompt, RequestParams params) {
    try {
      batcher.submit(prompt_of(n_prompt, 1), std::move(params));
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return true;
    }
  };
  EXPECT_TRUE(refused(5, {.n = 9}));
  EXPECT_TRUE(refused(30, {.n = 4}));
  EXPECT_TRUE(refused(5, {.stop = {"a", "b", "c", "d"}}));
  EXPECT_TRUE(refused(5, {.stop = {std::string(21, 'x')}}));
  EXPECT_TRUE(refused(5, {.stop = {""}}));
  EXPECT_TRUE(refused(5, {.timeout_ms = -1.0}));
  EXPECT_TRUE(refused(5, {.timeout_ms = std::nan("")}));
  EXPECT_FALSE(refused(12, {.n = 8, .n_predict = 1, .stop = {"a", "b", std::string(18, 'x')}}));
  batcher.run();
}

/// A waiting request has no sampler and no sequence yet.
TEST(BatcherLimits, WaitingRequestsTakeLittleMemory) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1});
  Batcher batcher(context);
  int n_made = 0;
  RequestParams params{.n_predict = 1};
  params.constraint = [&](int) {
    ++n_made;
    return nullptr;
  };
  for (int i = 0; i < 10; ++i) batcher.submit(prompt_of(20, 1), params);
  EXPECT_EQ(n_made, 0);
  batcher.run();
  EXPECT_EQ(n_made, 10);
}

TEST(BatcherLimits, AContextHasOneBatcher) {
  const auto model = golden("llama");
  const auto shared =
      std::make_shared<Context>(model, ContextParams{.n_ctx = 128, .n_sequences = 4, .n_threads = 1});
  Context& context = *shared;
  const auto draft =
      std::make_shared<Context>(model, ContextParams{.n_ctx = 128, .n_sequences = 4, .n_threads = 1});
  EXPECT_THROW(Batcher(context, {.speculation = Speculation::kModel, .draft = shared}), Error);
  {
    const Batcher first(context, {.speculation = Speculation::kModel, .draft = draft});
    EXPECT_THROW(Batcher{context}, Error);
    EXPECT_THROW(Batcher{*draft}, Error);
  }
  const Batcher second(context), third(*draft);
}

/// Finished sequences in the cache are dropped before a running sequence has to end.
TEST(BatcherLimits, IdleTextsMakeRoomForTextsWithoutEnd) {
  const auto model = golden("llama");
  for (int layout = 0; layout < 40; ++layout) {
    Context context(model, {.n_ctx = 128 + 16 * (layout % 5), .n_sequences = 6, .n_threads = 1});
    Batcher batcher(context, {.n_running = 2});
    Collector collector;
    std::mt19937_64 random(static_cast<std::uint64_t>(layout));
    // Prefixes that the endless sequence shares.
    for (int i = 0; i < 4; ++i) {
      collector.submit(batcher, {prompt_of(60 + static_cast<int>(random() % 40), 1),
                                 {.n_predict = 1 + static_cast<int>(random() % 20), .ignore_end = true}});
      batcher.run();
    }
    // It has room for itself, but not for copies of shared cells.
    RequestParams endless{.n_predict = 300, .ignore_end = true, .context_shift = true, .n_ctx = 100};
    const RequestId id =
        collector.submit(batcher, {prompt_of(80 + static_cast<int>(random() % 20), 1), endless});
    while (batcher.step()) ASSERT_TRUE(batcher.consistent()) << layout;
    EXPECT_EQ(collector(id).stop, StopReason::kLength) << layout;
    EXPECT_EQ(collector(id).tokens.size(), 300u) << layout;
  }
}

/// A full sequence that has lost its cells shifts as it would have done.
TEST(BatcherLimits, PreemptedFullSequencesContinue) {
  const auto model = golden("llama");
  std::vector<Token> reference;
  for (const bool disturbed : {false, true}) {
    Context context(model, {.n_ctx = 256, .n_sequences = 4, .n_threads = 1});
    Batcher batcher(context, {.max_pause_ms = 0.0});
    RequestParams params{.n_predict = 120, .ignore_end = true, .context_shift = true, .n_ctx = 64};
    params.sampler.seed = 3;
    std::vector<Token> tokens;
    StopReason stop = StopReason::kError;
    params.on_output = [&](const Output& output) {
      for (const OutputToken& token : output.tokens) tokens.push_back(token.id);
      if (output.done) stop = output.stop;
      if (disturbed && tokens.size() == 61)
        batcher.pause(output.request);  // Its 65 tokens include the prompt.
      return true;
    };
    const RequestId id = batcher.submit(prompt_of(4, 1), params);
    batcher.run();
    if (disturbed) {
      ASSERT_EQ(tokens.size(), 61u);
      batcher.submit(prompt_of(10, 2), {.n_predict = 3});
      batcher.run();  // It preempts the paused one.
      EXPECT_EQ(batcher.stats().n_preempted, 1);
      batcher.resume(id);
      batcher.run();
    } else {
      reference = tokens;
    }
    EXPECT_EQ(stop, StopReason::kLength);
    EXPECT_EQ(tokens, reference);
  }
}

}  // namespace
}  // namespace weft
