// Fairness of a batcher with many requests: which run first, and which wait.
#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::Ask;
using test::Collector;
using test::golden;
using test::prompt_of;

/// The step in which a request has its first token.
int steps_to_first_token(Batcher& batcher, std::vector<Token> prompt, RequestParams params = {}) {
  bool begun = false;
  params.n_predict = 1;
  params.on_output = [&](const Output& output) {
    begun = begun || !output.tokens.empty();
    return true;
  };
  batcher.submit(prompt, std::move(params));
  int n = 0;
  while (!begun && ++n < 1000) batcher.step();
  return n;
}

TEST(BatcherFairness, AShortPromptDoesNotWaitForALongOne) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 8192, .n_sequences = 8, .n_ubatch = 64, .n_threads = 1});
  Batcher batcher(context, {.max_step_ms = 1e9});
  Collector collector;
  const RequestId large = collector.submit(batcher, {prompt_of(4000, 1), {.n_predict = 1}});
  for (int i = 0; i < 3; ++i) batcher.step();
  EXPECT_LE(steps_to_first_token(batcher, prompt_of(20, 2)), 2);
  EXPECT_LE(steps_to_first_token(batcher, prompt_of(40, 3), {.priority = -5}), 4);
  EXPECT_FALSE(collector(large).done);
  // Many short ones do not starve it.
  const std::int64_t before = batcher.stats().n_steps;
  while (!collector(large).done && batcher.stats().n_steps < before + 2000)
    collector.submit(
        batcher, {prompt_of(60, static_cast<Token>(4 + batcher.stats().n_steps % 200)), {.n_predict = 1}}),
        batcher.step();
  EXPECT_TRUE(collector(large).done);
  batcher.run();
}

TEST(BatcherFairness, PriorityGoesFirst) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 8192, .n_sequences = 8, .n_ubatch = 32, .n_threads = 1});
  Batcher batcher(context, {.max_step_ms = 1e9});
  Collector collector;
  for (Token i = 0; i < 3; ++i) collector.submit(batcher, {prompt_of(1000 + 10 * i, i), {.n_predict = 1}});
  batcher.step();
  // 3/4 of 32 tokens a step.
  EXPECT_LE(steps_to_first_token(batcher, prompt_of(1100, 9), {.priority = 1}), 1100 / 24 + 2);
  batcher.run();
}

TEST(BatcherFairness, ShortRequestsPassAWaitingLargeOneOnlyForATime) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 1024, .n_sequences = 8, .n_threads = 1});
  Batcher batcher(context, {.reuse_prefixes = false});
  Collector collector;
  RequestParams long_running{.n_predict = 400, .ignore_end = true};
  collector.submit(batcher, {prompt_of(300, 1), long_running});
  batcher.step();
  const RequestId large = collector.submit(batcher, {prompt_of(1000, 2), {.n_predict = 1}});
  EXPECT_LE(steps_to_first_token(batcher, prompt_of(20, 3)), 3);
  EXPECT_FALSE(collector(large).done);
  int n = 0;
  while (!collector(large).done && n < 1500) {
    collector.submit(
        batcher, {prompt_of(30, static_cast<Token>(4 + n++ % 100)), {.n_predict = 20, .ignore_end = true}});
    batcher.step();
  }
  EXPECT_TRUE(collector(large).done);
  batcher.run();
}

TEST(BatcherFairness, ARequestThatCannotFitYetEvictsNothing) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 6, .n_threads = 1});
  Batcher batcher(context);
  Collector collector;
  collector.submit(batcher, {prompt_of(100, 1), {.n_predict = 1}});  // Stays for others.
  batcher.run();
  collector.submit(batcher, {prompt_of(200, 2), {.n_predict = 60, .ignore_end = true}});
  batcher.step();
  collector.submit(batcher, {prompt_of(450, 3), {.n_predict = 1}});
  for (int i = 0; i < 10; ++i) batcher.step();
  EXPECT_EQ(batcher.stats().n_evicted, 0);
  batcher.run();
}

TEST(BatcherFairness, DraftModelsReadUnderTheSameBudget) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 4096, .n_sequences = 4, .n_ubatch = 32, .n_threads = 1});
  const auto draft = std::make_shared<Context>(
      model, ContextParams{.n_ctx = 4096, .n_sequences = 4, .n_ubatch = 512, .n_threads = 1});
  Batcher batcher(context, {.max_step_ms = 1e9,
                            .speculation = Speculation::kModel,
                            .n_draft = 2,
                            .adapt_drafts = false,
                            .draft = draft});
  Collector collector;
  Ask ask{prompt_of(1500, 1), {.n_predict = 120, .ignore_end = true}};
  ask.params.sampler.temperature = 0.0f;
  const RequestId id = collector.submit(batcher, ask);
  Pos read = 0;
  while (batcher.step()) {
    ASSERT_LE(draft->cache().next_pos(0) - read, 32 + 64) << "in one step";
    read = draft->cache().next_pos(0);
  }
  EXPECT_EQ(collector(id).tokens.size(), 120u);
  EXPECT_GT(batcher.stats().n_accepted_tokens, 0);
}

TEST(BatcherFairness, AStepConsidersFewRequestsThatWaitForAPrefix) {
  const auto model = golden("llama");
  for (const int n_waiting : {100, 1000}) {
    Context context(model, {.n_ctx = 4096, .n_sequences = 8, .n_threads = 1});
    Batcher batcher(context, {.n_step_tokens = 64, .max_step_ms = 1e9});
    Collector collector;
    std::vector<Token> prompt = prompt_of(600, 1);
    collector.submit(batcher, {prompt, {.n_predict = 1}});
    batcher.step();
    for (int i = 0; i < n_waiting; ++i) {
      prompt.back() = 4 + i % 200;
      collector.submit(batcher, {prompt, {.n_predict = 1}});
    }
    const RequestId other = collector.submit(batcher, {prompt_of(20, 2), {.n_predict = 1}});
    batcher.step();
    EXPECT_EQ(collector(other).done, n_waiting == 100);
    batcher.run();
    EXPECT_TRUE(collector(other).done);
    EXPECT_LE(batcher.stats().n_prompt_tokens, 600 + n_waiting + 20);  // The prefix is computed once.
  }
}

TEST(BatcherFairness, NewRequestsDoNotStarve) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 8192, .n_sequences = 8, .n_ubatch = 64, .n_threads = 1});
  Batcher batcher(context, {.max_step_ms = 1e9, .reuse_prefixes = false});
  Collector collector;
  const RequestId large = collector.submit(batcher, {prompt_of(500, 1), {.n_predict = 1}});
  int n_steps = 0;
  for (; !collector(large).done && n_steps < 400; ++n_steps) {  // Each of them could fill its step.
    collector.submit(batcher, {prompt_of(64, static_cast<Token>(4 + n_steps % 200)), {.n_predict = 1}});
    batcher.step();
  }
  EXPECT_TRUE(collector(large).done);
  batcher.run();
}

TEST(BatcherFairness, BlockedRequestsDoNotBlockOthers) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 4096, .n_sequences = 4, .n_ubatch = 64, .n_threads = 1});
  Batcher batcher(context, {.n_running = 3});
  Collector collector;
  for (int i = 0; i < 70; ++i)
    batcher.pause(collector.submit(batcher, {prompt_of(5, static_cast<Token>(i)), {.n_predict = 2}}));
  const RequestId behind = collector.submit(batcher, {prompt_of(5, 100), {.n_predict = 2}});
  for (int i = 0; i < 10; ++i) batcher.step();
  EXPECT_TRUE(collector(behind).done);
  EXPECT_FALSE(batcher.step());
  // Completions that wait for a prompt that one of them is computing.
  const RequestId many = collector.submit(batcher, {prompt_of(1000, 101), {.n = 70, .n_predict = 1}});
  const RequestId quick = collector.submit(batcher, {prompt_of(5, 102), {.n_predict = 1}});
  for (int i = 0; i < 4; ++i) batcher.step();
  EXPECT_TRUE(collector(quick).done);
  EXPECT_FALSE(collector(many).done);
  batcher.run();
  EXPECT_TRUE(collector(many, 69).done);
}

TEST(BatcherFairness, BackgroundRequestsComputeOnlyWhileOthersHaveNoWork) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 4096, .n_sequences = 8, .n_threads = 1});
  Batcher batcher(context);
  Collector collector;
  const Ask slow{prompt_of(20, 1),
                 {.sampler = {.temperature = 0.0f},
                  .n_predict = 60,
                  .ignore_end = true,
                  .priority = kBackgroundPriority}};
  const RequestId background = collector.submit(batcher, slow);
  for (int i = 0; i < 5; ++i) batcher.step();
  const std::size_t n_before = collector(background).tokens.size();
  EXPECT_GT(n_before, 0u);
  const RequestId waiting = collector.submit(batcher, {prompt_of(30, 2), slow.params});
  const RequestId other =
      collector.submit(batcher, {prompt_of(40, 3), {.n_predict = 20, .ignore_end = true}});
  while (!collector(other).done) {
    ASSERT_TRUE(batcher.step());
    EXPECT_EQ(collector(background).tokens.size(), n_before);
    EXPECT_TRUE(collector(waiting).tokens.empty());
  }
  EXPECT_EQ(batcher.stats().n_preempted, 0);  // It keeps its cells while there is room.
  batcher.run();
  EXPECT_EQ(collector(waiting).tokens.size(), 60u);
  test::expect_same(collector(background), test::alone(model, slow), "after it has yielded");
}

TEST(BatcherFairness, BackgroundRequestsMakeRoomForOthers) {
  const auto model = golden("llama");
  for (const bool lacks_cells : {true, false}) {
    Context context(model, {.n_ctx = lacks_cells ? 512 : 4096, .n_sequences = 8, .n_threads = 1});
    Batcher batcher(context, {.n_running = lacks_cells ? 4 : 2});
    Collector collector;
    const RequestParams params{.sampler = {.temperature = 0.0f},
                               .n_predict = 80,
                               .ignore_end = true,
                               .priority = kBackgroundPriority};
    std::vector<RequestId> background;
    for (Token i = 0; i < 2; ++i)
      background.push_back(collector.submit(batcher, {prompt_of(100, i), params}));
    while (collector(background[1]).tokens.empty()) batcher.step();
    EXPECT_LE(steps_to_first_token(batcher, prompt_of(400, 9)), 3) << lacks_cells;
    EXPECT_GT(batcher.stats().n_preempted, 0);
    batcher.run();
    for (Token i = 0; i < 2; ++i)
      test::expect_same(collector(background[static_cast<std::size_t>(i)]),
                        test::alone(model, {prompt_of(100, i), params}), "preempted");
  }
}

TEST(BatcherFairness, BackgroundRequestsContinueWhileOthersArePaused) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 4096, .n_sequences = 8, .n_threads = 1});
  Batcher batcher(context);
  Collector collector;
  const RequestId slow = collector.submit(batcher, {prompt_of(20, 1), {.n_predict = 40, .ignore_end = true}});
  for (int i = 0; i < 3; ++i) batcher.step();
  const RequestId background = collector.submit(
      batcher, {prompt_of(20, 2), {.n_predict = 10, .ignore_end = true, .priority = kBackgroundPriority}});
  batcher.pause(slow);
  for (int i = 0; i < 12; ++i) batcher.step();
  EXPECT_TRUE(collector(background).done);
  batcher.resume(slow);
  batcher.run();
  EXPECT_TRUE(collector(slow).done);
}

TEST(BatcherFairness, BackgroundRequestsFillHalfOfTheQueue) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 1024, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context, {.n_running = 1, .limits = {.n_waiting = 4}});
  Collector collector;
  const auto submit = [&](int priority) {
    collector.submit(batcher, {prompt_of(5, 1), {.n_predict = 1, .priority = priority}});
  };
  for (int i = 0; i < 2; ++i) submit(kBackgroundPriority);
  EXPECT_THROW(submit(kBackgroundPriority), OverloadedError);
  for (int i = 0; i < 2; ++i) submit(0);
  EXPECT_THROW(submit(0), OverloadedError);
  batcher.run();
}

TEST(BatcherFairness, PromptsInTheBackgroundLeaveShortSteps) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 8192, .n_sequences = 4, .n_ubatch = 64, .n_threads = 1});
  Batcher batcher(context, {.n_step_tokens = 4096, .max_step_ms = 1e-3});
  Collector collector;
  const RequestId background =
      collector.submit(batcher, {prompt_of(3000, 1), {.n_predict = 1, .priority = kBackgroundPriority}});
  for (int i = 0; i < 4; ++i) batcher.step();
  EXPECT_FALSE(collector(background).done);
  EXPECT_LE(batcher.stats().n_prompt_tokens, 4 * 64);
  batcher.run();
  EXPECT_TRUE(collector(background).done);
}

TEST(BatcherFairness, RequestsDoNotWaitForPrefixesInTheBackground) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 8192, .n_sequences = 8, .n_ubatch = 64, .n_threads = 1});
  Batcher batcher(context, {.max_step_ms = 1e-3});  // 16 tokens a step in the background, 64 otherwise.
  Collector collector;
  for (Token i = 0; i < 3; ++i)
    collector.submit(batcher, {prompt_of(2000, i), {.n_predict = 1, .priority = kBackgroundPriority}});
  for (int i = 0; i < 3; ++i) batcher.step();
  EXPECT_LE(steps_to_first_token(batcher, prompt_of(2000, 2)), 2000 / 64 + 2);
  batcher.run();
}

}  // namespace
}  // namespace weft
