// A batcher among many: who goes first, who waits, who is refused, and what limits hold.
#include <chrono>
#include <cmath>
#include <thread>

#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::alone;
using test::Ask;
using test::Collector;
using test::expect_same;
using test::golden;
using test::random_ask;

std::vector<Token> prompt_of(int n, Token first) {
  std::vector<Token> prompt(static_cast<std::size_t>(n), 17);
  prompt[0] = first;
  return prompt;
}

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

TEST(BatcherFairness, ShortOnesPassOneThatDoesNotFitButNotForEver) {
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
  Context draft(model, {.n_ctx = 4096, .n_sequences = 4, .n_ubatch = 512, .n_threads = 1});
  Batcher batcher(context, {.max_step_ms = 1e9,
                            .speculation = Speculation::kModel,
                            .n_draft = 2,
                            .adapt_drafts = false,
                            .draft = &draft});
  Collector collector;
  Ask ask{prompt_of(1500, 1), {.n_predict = 120, .ignore_end = true}};
  ask.params.sampler.temperature = 0.0f;
  const RequestId id = collector.submit(batcher, ask);
  Pos read = 0;
  while (batcher.step()) {
    ASSERT_LE(draft.next_pos(0) - read, 32 + 64) << "in one step";
    read = draft.next_pos(0);
  }
  EXPECT_EQ(collector(id).tokens.size(), 120u);
  EXPECT_GT(batcher.stats().n_accepted_tokens, 0);
}

TEST(BatcherFairness, AContextHasOneBatcher) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 128, .n_sequences = 4, .n_threads = 1});
  Context draft(model, {.n_ctx = 128, .n_sequences = 4, .n_threads = 1});
  EXPECT_THROW(Batcher(context, {.speculation = Speculation::kModel, .draft = &context}), Error);
  {
    const Batcher first(context, {.speculation = Speculation::kModel, .draft = &draft});
    EXPECT_THROW(Batcher{context}, Error);
    EXPECT_THROW(Batcher{draft}, Error);
  }
  const Batcher second(context), third(draft);
}

/// Whatever finished texts lie in the cache: they go before a text has to end.
TEST(BatcherFairness, IdleTextsMakeRoomForTextsWithoutEnd) {
  const auto model = golden("llama");
  for (int layout = 0; layout < 40; ++layout) {
    Context context(model, {.n_ctx = 128 + 16 * (layout % 5), .n_sequences = 6, .n_threads = 1});
    Batcher batcher(context, {.n_running = 2});
    Collector collector;
    std::mt19937_64 random(static_cast<std::uint64_t>(layout));
    // Beginnings that the endless text shares.
    for (int i = 0; i < 4; ++i) {
      collector.submit(batcher, {prompt_of(60 + static_cast<int>(random() % 40), 1),
                                 {.n_predict = 1 + static_cast<int>(random() % 20), .ignore_end = true}});
      batcher.run();
    }
    // It has room for itself, but not for copies of what it shares.
    RequestParams endless{.n_predict = 300, .ignore_end = true, .context_shift = true, .n_ctx = 100};
    const RequestId id =
        collector.submit(batcher, {prompt_of(80 + static_cast<int>(random() % 20), 1), endless});
    while (batcher.step()) ASSERT_TRUE(batcher.consistent()) << layout;
    EXPECT_EQ(collector(id).stop, StopReason::kLength) << layout;
    EXPECT_EQ(collector(id).tokens.size(), 300u) << layout;
  }
}

TEST(BatcherFairness, NewcomersAreNotTheOnesWhoStarve) {
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

TEST(BatcherFairness, WhoCannotGoOnHidesNobody) {
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

/// A full text that has lost its cells forgets as it would have done.
TEST(BatcherFairness, FullTextsThatAreComputedAgainGoOn) {
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
      if (disturbed && tokens.size() == 61) batcher.pause(output.request);  // Of 65 tokens, with the prompt.
      return true;
    };
    const RequestId id = batcher.submit(prompt_of(4, 1), params);
    batcher.run();
    if (disturbed) {
      ASSERT_EQ(tokens.size(), 61u);
      batcher.submit(prompt_of(10, 2), {.n_predict = 3});
      batcher.run();  // The paused one is preempted meanwhile.
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

// --- Deadlines, pauses, limits

TEST(BatcherLimits, DeadlinesEndWhatIsLate) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 1024, .n_sequences = 2, .n_threads = 1});
  Batcher batcher(context, {.n_running = 1});
  Collector collector;
  const RequestParams endless{.n_predict = -1, .ignore_end = true};
  RequestParams in_time = endless, late_in_queue = endless, late = endless;
  in_time.n_predict = 3;
  in_time.timeout_ms = 1e7;
  late.timeout_ms = 30.0;
  late_in_queue.queue_timeout_ms = 30.0;
  RequestParams late_first = late_in_queue;
  late_first.queue_timeout_ms = 0.0;
  late_first.first_token_timeout_ms = 30.0;
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
  // Others go on beside it; two that want all of the cache take its cells.
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

TEST(BatcherLimits, PausedOnesDoNotKeepOthersOut) {
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

TEST(BatcherLimits, AFullQueueRefusesAndSaysWhen) {
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

/// What waits has no sampler and no text of its own yet.
TEST(BatcherLimits, WhatWaitsIsSmall) {
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

// --- Constraints

/// Allows multiples of `step` only, and the end after `n` of them.
class Multiples final : public TokenConstraint {
 public:
  Multiples(int n_vocab, int step) : n_vocab_(n_vocab), step_(step) {}
  void accept(Token token) override { EXPECT_TRUE(allows({}, token)); }
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    for (const Token token : draft) EXPECT_TRUE(allows({}, token));
    for (Token token = 0; token < n_vocab_; token += step_)
      allowed[static_cast<std::size_t>(token) / 32] |= 1u << token % 32;
  }
  bool allows(std::span<const Token>, Token next) override { return next % step_ == 0; }

 private:
  int n_vocab_, step_;
};

TEST(BatcherConstraints, OnlyAllowedTokensAreWrittenWithDraftsAndWithout) {
  const auto model = golden("llama");
  std::vector<std::vector<Token>> texts;
  for (const auto speculation : {Speculation::kNone, Speculation::kNgram, Speculation::kModel}) {
    Context context(model, {.n_ctx = 1024, .n_sequences = 12, .n_threads = 1});
    Context draft(model, {.n_ctx = 1024, .n_sequences = 12, .n_threads = 1});
    Batcher batcher(
        context,
        {.n_running = 4, .speculation = speculation, .n_draft = 6, .adapt_drafts = false, .draft = &draft});
    Collector collector;
    std::vector<RequestId> ids;
    for (int i = 0; i < 6; ++i) {
      Ask ask{{3, 6, 3, 6, static_cast<Token>(i)}, {.n_predict = 40, .ignore_end = true}};
      ask.params.sampler.temperature = i % 2 == 0 ? 0.0f : 1.0f;
      ask.params.sampler.seed = static_cast<std::uint64_t>(i);
      if (i < 4)
        ask.params.constraint = [&](int) { return std::make_unique<Multiples>(model->info().n_vocab, 3); };
      ids.push_back(collector.submit(batcher, ask));
    }
    while (batcher.step()) ASSERT_TRUE(batcher.consistent());
    for (int i = 0; i < 6; ++i) {
      const auto& tokens = collector(ids[static_cast<std::size_t>(i)]).tokens;
      EXPECT_EQ(tokens.size(), 40u);
      EXPECT_TRUE(i >= 4 || std::all_of(tokens.begin(), tokens.end(), [](Token t) { return t % 3 == 0; }));
      if (speculation == Speculation::kNone) {
        texts.push_back(tokens);
      } else {
        EXPECT_EQ(tokens, texts[static_cast<std::size_t>(i)]) << "a draft changes nothing";
      }
    }
  }
}

// --- Logprobs

/// Of the prompt and of what is written, with the best few rows only and with whole rows, alone and beside
/// others.
TEST(BatcherLogprobs, AreThoseOfTheWholeRows) {
  for (const char* family : {"llama", "gemma3", "lfm2"}) {
    const auto model = golden(family);
    const std::vector<Token> prompt = {3, 6, 9, 12, 7, 7, 1};
    // The truth: each row's logits, in double.
    std::vector<std::vector<double>> truth;
    std::vector<Token> text = prompt;
    {
      Context context(model, {.n_ctx = 256, .n_threads = 1});
      for (std::size_t i = 0; i < prompt.size() + 5; ++i) {
        Batch batch;
        batch.add(text[i], 0, true);
        ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
        const auto logits = context.logits(0);
        double sum = 0.0;
        for (const float x : logits) sum += std::exp(static_cast<double>(x));
        std::vector<double> row;
        for (const float x : logits) row.push_back(x - std::log(sum));
        if (i + 1 >= prompt.size())
          text.push_back(static_cast<Token>(std::max_element(row.begin(), row.end()) - row.begin()));
        truth.push_back(std::move(row));
      }
    }
    const auto check = [&](const OutputToken& token, std::size_t at, int n_top) {
      EXPECT_EQ(token.id, text[at]);
      EXPECT_NEAR(token.logprob, truth[at - 1][static_cast<std::size_t>(token.id)], 1e-4);
      ASSERT_EQ(token.top.size(), static_cast<std::size_t>(n_top));
      for (const Logprob& top : token.top)
        EXPECT_NEAR(top.logprob, truth[at - 1][static_cast<std::size_t>(top.id)], 1e-4);
      for (int i = 1; i < n_top; ++i)
        EXPECT_LE(token.top[static_cast<std::size_t>(i)].logprob,
                  token.top[static_cast<std::size_t>(i - 1)].logprob);
    };
    for (const int n_best : {0, 64})
      for (const int n_top : {0, 4, 90}) {
        Context context(model,
                        {.n_ctx = 512, .n_sequences = 4, .n_ubatch = 5, .n_threads = 1, .n_best = n_best});
        Batcher batcher(context);
        std::vector<OutputToken> read, written;
        RequestParams params{
            .n_predict = 5, .ignore_end = true, .n_logprobs = n_top, .prompt_logprobs = true};
        params.sampler.temperature = 0.0f;
        params.on_output = [&](const Output& output) {
          read.insert(read.end(), output.prompt.begin(), output.prompt.end());
          written.insert(written.end(), output.tokens.begin(), output.tokens.end());
          return true;
        };
        for (int again = 0; again < 2; ++again) {  // The second time all of it is cached.
          read.clear();
          written.clear();
          batcher.submit(prompt, params);
          batcher.submit(std::vector<Token>{1, 2, 3}, {.n_predict = 4});
          batcher.run();
          ASSERT_EQ(read.size(), prompt.size() - 1);
          ASSERT_EQ(written.size(), 5u);
          for (std::size_t i = 0; i < read.size(); ++i) check(read[i], i + 1, n_top);
          for (std::size_t i = 0; i < written.size(); ++i) check(written[i], prompt.size() + i, n_top);
        }
      }
  }
}

/// A text that is only scored.
TEST(BatcherLogprobs, OfAPromptWithoutAnAnswer) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context);
  std::vector<OutputToken> read;
  int n_ends = 0;
  RequestParams params{.n_predict = 0, .n_logprobs = 1, .prompt_logprobs = true};
  params.on_output = [&](const Output& output) {
    read.insert(read.end(), output.prompt.begin(), output.prompt.end());
    n_ends += output.done ? 1 : 0;
    EXPECT_TRUE(output.tokens.empty());
    return true;
  };
  batcher.submit(std::vector<Token>{3, 1, 4, 1, 5}, params);
  batcher.submit(std::vector<Token>{3}, params);
  batcher.run();
  EXPECT_EQ(read.size(), 4u);
  EXPECT_EQ(n_ends, 2);
  EXPECT_TRUE(batcher.consistent());
}

class Broken final : public TokenConstraint {
 public:
  explicit Broken(int fails_at) : left_(fails_at) {}
  void accept(Token) override {}
  void fill(std::span<const Token>, std::span<std::uint32_t> allowed) override {
    if (--left_ < 0) throw Error(ErrorCode::kInvalidArgument, "the grammar is broken");
    std::fill(allowed.begin(), allowed.end(), ~std::uint32_t{0});
  }
  bool allows(std::span<const Token>, Token) override { return true; }

 private:
  int left_;
};

/// What users' code throws need not be an exception of the standard library.
class Odd final : public TokenConstraint {
 public:
  explicit Odd(int where) : where_(where) {}
  void accept(Token) override {
    if (where_ == 0 && ++n_ == 3) throw 42;
  }
  void fill(std::span<const Token>, std::span<std::uint32_t> allowed) override {
    if (where_ == 1 && ++n_ == 3) throw 42;
    std::fill(allowed.begin(), allowed.end(), ~std::uint32_t{0});
  }
  bool allows(std::span<const Token>, Token) override {
    if (where_ == 2) throw 42;
    return true;
  }

 private:
  int where_, n_ = 0;
};

TEST(BatcherConstraints, WhateverTheyThrowEndsTheirCompletionAlone) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 8, .n_threads = 1});
  Batcher batcher(context, {.n_running = 5, .speculation = Speculation::kNgram, .adapt_drafts = false});
  Collector collector;
  std::mt19937_64 random(1);
  const Ask other = random_ask(*model, random);
  std::vector<RequestId> odd;
  const RequestId id = collector.submit(batcher, other);
  for (int where = 0; where < 4; ++where) {
    Ask ask{{3, 6, 3, 6, 3, 6}, {.n_predict = 200, .ignore_end = true}};
    ask.params.sampler.temperature = 0.0f;  // It repeats itself in the end, and is drafted.
    ask.params.constraint = [where](int) -> std::unique_ptr<TokenConstraint> {
      if (where == 3) throw 42;
      return std::make_unique<Odd>(where);
    };
    odd.push_back(collector.submit(batcher, ask));
  }
  while (batcher.step()) ASSERT_TRUE(batcher.consistent());
  // What allows() throws costs the guesses only.
  for (std::size_t i = 0; i < odd.size(); ++i)
    EXPECT_EQ(collector(odd[i]).stop, i == 2 ? StopReason::kLength : StopReason::kError) << i;
  expect_same(collector(id), alone(model, other), "the other one");
  EXPECT_EQ(batcher.stats().n_rebuilt, 0);
}

/// Guesses behind an end token are no business of a grammar.
class EndsAtEnd final : public TokenConstraint {
 public:
  explicit EndsAtEnd(const Model& model) : model_(model) {}
  void accept(Token) override {}
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    check(draft);
    std::fill(allowed.begin(), allowed.end(), ~std::uint32_t{0});
  }
  bool allows(std::span<const Token> draft, Token) override {
    check(draft);
    return true;
  }

 private:
  void check(std::span<const Token> draft) const {
    for (const Token token : draft)
      if (model_.tokenizer().is_end(token)) throw Error(ErrorCode::kInvalidArgument, "the text is over");
  }
  const Model& model_;
};

TEST(BatcherConstraints, AreNotAskedBehindAnEnd) {
  const auto model = golden("llama");
  Token end = 0;
  while (!model->tokenizer().is_end(end)) ++end;
  Context context(model, {.n_ctx = 512, .n_sequences = 8, .n_threads = 1});
  Batcher batcher(context, {.n_running = 2, .speculation = Speculation::kNgram, .adapt_drafts = false});
  Collector collector;
  Ask ask{{}, {.n_predict = 30}};
  for (int i = 0; i < 6; ++i)
    for (const Token token : {Token{7}, Token{8}, end, Token{9}, Token{10}}) ask.prompt.push_back(token);
  ask.prompt.insert(ask.prompt.end(), {7, 8});
  ask.params.constraint = [&](int) { return std::make_unique<EndsAtEnd>(*model); };
  const RequestId id = collector.submit(batcher, ask);
  batcher.run();
  EXPECT_NE(collector(id).stop, StopReason::kError);
}

TEST(BatcherConstraints, OneThatFailsEndsItsCompletionAlone) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context);
  Collector collector;
  std::mt19937_64 random(1);
  Ask ask = random_ask(*model, random), other = random_ask(*model, random);
  ask.params.n_predict = 20;
  ask.params.ignore_end = true;
  ask.params.constraint = [](int) { return std::make_unique<Broken>(3); };
  const RequestId broken = collector.submit(batcher, ask);
  ask.params.constraint = [](int) -> std::unique_ptr<TokenConstraint> {
    throw Error(ErrorCode::kInvalidArgument, "there is no such grammar");
  };
  const RequestId unmade = collector.submit(batcher, ask);
  const RequestId id = collector.submit(batcher, other);
  batcher.run();
  EXPECT_EQ(collector(broken).stop, StopReason::kError);
  EXPECT_EQ(collector(broken).tokens.size(), 3u);
  EXPECT_EQ(collector(unmade).stop, StopReason::kError);
  expect_same(collector(id), alone(model, other), "the other one");
}

}  // namespace
}  // namespace weft
