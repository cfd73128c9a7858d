// The batcher: each request has the same tokens as alone.
#include "weft/batcher.h"

#include <cmath>
#include <map>
#include <random>

#include "engine/batcher_testing.h"
#include "engine/model_draft.h"

namespace weft {
namespace {

using test::alone;
using test::Ask;
using test::Collector;
using test::Draft;
using test::DraftFile;
using test::expect_same;
using test::golden;
using test::prompt_of;
using test::random_ask;
using test::Result;

struct Setting {
  const char* name;
  ContextParams context;
  BatcherParams batcher;
};

const Setting kSettings[] = {
    {"plenty", {.n_ctx = 2048, .n_sequences = 8}, {}},
    {"one thread", {.n_ctx = 2048, .n_sequences = 8, .n_threads = 1}, {}},
    {"small steps", {.n_ctx = 2048, .n_sequences = 8, .n_ubatch = 9}, {}},
    {"a tiny cache", {.n_ctx = 128, .n_sequences = 8}, {}},
    {"a tiny cache, nothing reused", {.n_ctx = 128, .n_sequences = 8}, {.reuse_prefixes = false}},
    {"more sequences than run", {.n_ctx = 512, .n_sequences = 12}, {.n_running = 3, .n_step_tokens = 20}},
    {"drafts from the text",
     {.n_ctx = 2048, .n_sequences = 8, .state_rewind = 40},
     {.speculation = Speculation::kNgram}},
    {"trees from the text",
     {.n_ctx = 2048, .n_sequences = 24, .state_rewind = 78},
     {.n_running = 6, .speculation = Speculation::kNgram, .n_draft = 12, .adapt_drafts = false}},
    {"trees in a tiny cache",
     {.n_ctx = 192, .n_sequences = 12, .state_rewind = 11},
     {.n_running = 5, .speculation = Speculation::kNgram, .n_draft = 5, .adapt_drafts = false}},
    {"windows only", {.n_ctx = 2048, .n_sequences = 8, .window_rewind = 0}, {}},
    {"windows only, small steps", {.n_ctx = 1024, .n_sequences = 12, .n_ubatch = 9, .window_rewind = 0}, {}},
    {"windows only, drafts",
     {.n_ctx = 300, .n_sequences = 8, .window_rewind = 0},
     {.speculation = Speculation::kNgram}},
    {"drafts in a tiny cache",
     {.n_ctx = 128, .n_sequences = 8, .state_rewind = 40},
     {.speculation = Speculation::kNgram}},
};

class BatcherEquality : public testing::TestWithParam<const char*> {};

TEST_P(BatcherEquality, MatchesEachRequestAlone) {
  const auto model = golden(GetParam());
  std::mt19937_64 random(7);
  std::vector<Ask> asks;
  std::vector<Result> references;
  for (int i = 0; i < 40; ++i) {
    asks.push_back(random_ask(*model, random));
    references.push_back(alone(model, asks.back()));
  }
  for (const Setting& setting : kSettings) {
    Context context(model, setting.context);
    Batcher batcher(context, setting.batcher);
    Collector collector;
    std::vector<RequestId> ids;
    // They come in bursts, and some are cancelled.
    while (ids.size() < asks.size()) {
      for (std::uint64_t n = random() % 6; n > 0 && ids.size() < asks.size(); --n) {
        ids.push_back(collector.submit(batcher, asks[ids.size()]));
        if (random() % 3 == 0) {
          const RequestId gone = collector.submit(batcher, random_ask(*model, random));
          for (std::uint64_t steps = random() % 4; steps > 0; --steps) batcher.step();
          batcher.cancel(gone);
        }
      }
      batcher.step();
      ASSERT_TRUE(batcher.consistent()) << setting.name;
    }
    batcher.run();
    for (std::size_t i = 0; i < ids.size(); ++i)
      expect_same(collector(ids[i]), references[i],
                  std::string(setting.name) + ", request " + std::to_string(i));
    EXPECT_TRUE(batcher.consistent()) << setting.name;
    EXPECT_EQ(context.plan_stats().compiled, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BatcherEquality,
                         testing::Values("llama", "gemma3", "qwen3moe", "gpt2", "mamba", "lfm2"),
                         [](const auto& tested) { return std::string(tested.param); });

class DraftModel : public testing::TestWithParam<const char*> {};

TEST_P(DraftModel, ChangesNothing) {
  const auto model = golden(GetParam());
  std::mt19937_64 random(3);
  const ContextParams params = {.n_ctx = 2048, .n_sequences = 4, .state_rewind = state_rewind_for(4, 4)};
  Context context(model, params);
  const auto draft = std::make_shared<Context>(model, params, context);  // They take turns.
  Batcher batcher(context,
                  {.speculation = Speculation::kModel, .n_draft = 4, .n_draft_branches = 1, .draft = draft});
  Collector collector;
  std::vector<Ask> asks;
  std::vector<RequestId> ids;
  for (int i = 0; i < 20; ++i) {
    asks.push_back(random_ask(*model, random));
    ids.push_back(collector.submit(batcher, asks.back()));
  }
  batcher.run();
  for (std::size_t i = 0; i < ids.size(); ++i)
    expect_same(collector(ids[i]), alone(model, asks[i]), "request " + std::to_string(i));
  const BatcherStats stats = batcher.stats();
  EXPECT_GT(stats.n_drafted_tokens, 0);
  EXPECT_GT(stats.n_accepted_tokens, 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // The model agrees with itself, where it does not draw.
    const CompletionStats& own = collector(ids[i]).stats;
    if (asks[i].params.sampler.temperature == 0.0f && collector(ids[i]).stop == StopReason::kLength) {
      EXPECT_EQ(own.n_accepted, own.n_drafted);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DraftModel, testing::Values("llama", "mamba2", "qwen35", "lfm2"),
                         test::name_of_family);

/// A sampled sequence takes the second most probable token now and then, so trees of the best two predict
/// more of it.
TEST(Batcher, ATreeOfDraftsGuessesMoreThanAChain) {
  const auto model = golden("llama");
  Ask ask{.prompt = {5, 17, 3, 9}, .params = {.n_predict = 120, .ignore_end = true}};
  ask.params.sampler = {.seed = 11, .temperature = 0.7f};
  const Result reference = alone(model, ask);
  std::int64_t steps[2] = {};
  for (const int n_branches : {1, 3}) {
    const ContextParams params = {.n_ctx = 512, .n_sequences = 3};
    Context context(model, params);
    Batcher batcher(context, {.speculation = Speculation::kModel,
                              .n_draft = n_branches == 1 ? 2 : 4,  // Two deep.
                              .n_draft_branches = n_branches,
                              .adapt_drafts = false,
                              .draft = std::make_shared<Context>(model, params)});
    Collector collector;
    const RequestId id = collector.submit(batcher, ask);
    while (batcher.step()) ASSERT_TRUE(batcher.consistent());
    expect_same(collector(id), reference, std::to_string(n_branches) + " branches");
    steps[n_branches > 1] = batcher.stats().n_steps;
    EXPECT_EQ(batcher.stats().n_branches > 0, n_branches > 1);
    EXPECT_EQ(context.plan_stats().compiled, 1);
  }
  EXPECT_LT(steps[1], steps[0]);
}

TEST(Batcher, DraftModelsMustFit) {
  const auto model = golden("llama"), other = golden("gemma3");
  Context context(model, {.n_ctx = 128, .n_sequences = 4});
  const auto few = std::make_shared<Context>(model, ContextParams{.n_ctx = 128, .n_sequences = 2});
  const auto foreign = std::make_shared<Context>(other, ContextParams{.n_ctx = 128, .n_sequences = 4});
  EXPECT_THROW(Batcher(context, {.speculation = Speculation::kModel}), Error);
  EXPECT_THROW(Batcher(context, {.speculation = Speculation::kModel, .draft = few}), Error);
  EXPECT_THROW(Batcher(context, {.speculation = Speculation::kModel, .draft = foreign}), Error);
}

/// The model with this many further tokens, as families pad their vocabularies.
std::shared_ptr<const Model> padded(int n_more) {
  Draft file("llama");
  std::vector<std::string> texts = *file.original().get_strings("tokenizer.ggml.tokens");
  for (int i = 0; i < n_more; ++i) texts.push_back("[PAD" + std::to_string(i) + "]");
  const std::size_t n = texts.size();
  std::vector<std::int64_t> kinds = *file.original().get_ints("tokenizer.ggml.token_type");
  kinds.resize(n, 1);
  file.set_array("tokenizer.ggml.tokens", texts)
      .set_array("tokenizer.ggml.scores", std::vector<float>(n, -1000.0f))
      .set_array("tokenizer.ggml.token_type", std::vector<std::int32_t>(kinds.begin(), kinds.end()));
  if (file.has(file.key("vocab_size"))) file.set(file.key("vocab_size"), static_cast<std::uint32_t>(n));
  for (const char* name : {"token_embd.weight", "output.weight"})
    for (Draft::Tensor& tensor : file.tensors)
      if (tensor.name == name)
        tensor.reshape({static_cast<std::int64_t>(n), tensor.shape.back()}, tensor.dtype);
  const DraftFile on_disk(file);
  return Model::load(on_disk.path());
}

// Qwen2.5 has 151936 tokens, and its larger models 152064 (vllm-project/vllm#5203, mlc-ai/mlc-llm#3212).
TEST(Batcher, VocabulariesOfDraftModelsMayHaveOtherPadding) {
  const auto small = padded(0), large = padded(40);
  ASSERT_EQ(large->info().n_vocab, small->info().n_vocab + 40);
  for (const auto& [model, drafter] : {std::pair(small, large), std::pair(large, small)}) {
    Context context(model, {.n_ctx = 512, .n_sequences = 4});
    Batcher batcher(context, {.speculation = Speculation::kModel,
                              .adapt_drafts = false,
                              .draft = std::make_shared<Context>(
                                  drafter, ContextParams{.n_ctx = 512, .n_sequences = 4})});
    Collector collector;
    Ask ask{prompt_of(20, 3), {.sampler = {.temperature = 0.0f}, .n_predict = 40, .ignore_end = true}};
    if (model == large) ask.prompt.push_back(small->info().n_vocab + 3);  // Unknown to the draft model.
    const RequestId unknown = collector.submit(batcher, ask);
    batcher.run();
    EXPECT_EQ(collector(unknown).stats.n_drafted > 0, model == small);
    ask.prompt = prompt_of(30, 4);
    const RequestId known = collector.submit(batcher, ask);
    batcher.run();
    EXPECT_GT(collector(known).stats.n_accepted, 20);
    expect_same(collector(known), alone(model, ask), "padded");
  }
  Context context(small, {.n_ctx = 128, .n_sequences = 2});
  const auto other = padded(2000);
  const auto draft = std::make_shared<Context>(other, ContextParams{.n_ctx = 128, .n_sequences = 2});
  EXPECT_THROW(Batcher(context, {.speculation = Speculation::kModel, .draft = draft}), Error);
}

// The draft model's context is smaller (ikawrakow/ik_llama.cpp#732, ggml-org/llama.cpp#22554): drafts end
// there, and the draft model computes nothing further.
TEST(Batcher, DraftsEndWithTheContextOfTheDraftModel) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 4});
  const auto draft = std::make_shared<Context>(model, ContextParams{.n_ctx = 128, .n_sequences = 4});
  Batcher batcher(context, {.speculation = Speculation::kModel, .adapt_drafts = false, .draft = draft});
  Collector collector;
  Ask ask{prompt_of(20, 3), {.sampler = {.temperature = 0.0f}, .n_predict = 300, .ignore_end = true}};
  const RequestId id = collector.submit(batcher, ask);
  while (collector(id).tokens.size() < 120) batcher.step();
  const std::int64_t steps = draft->plan_stats().steps, drafted = batcher.stats().n_drafted_tokens;
  EXPECT_GT(drafted, 50);
  batcher.run();
  EXPECT_EQ(draft->plan_stats().steps, steps);
  EXPECT_EQ(batcher.stats().n_drafted_tokens, drafted);
  Context reference(model, {.n_ctx = 512});
  Sampler sampler(ask.params.sampler, model->info().n_vocab);
  EXPECT_TRUE(collector(id).tokens ==
              generate(reference, sampler, ask.prompt, {.n_predict = 300, .ignore_end = true}).tokens);
}

/// Public reports of speculation that changes results: seeds (vllm-project/vllm#6038), seeds of some requests
/// only (#11123), penalties (#6718, #22987), logprobs (#17876) and tokens after a stop string (#47616).
TEST(Batcher, DraftsChangeNoSeedPenaltyLogprobOrStop) {
  const auto model = golden("llama");
  std::vector<Ask> asks;
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}}) {
    Ask ask{prompt_of(40, 3), {.n_predict = 60, .ignore_end = true, .n_logprobs = 3}};
    ask.params.sampler = {.seed = seed, .temperature = seed == 2 ? 0.0f : 0.5f};
    asks.push_back(ask);
    ask.params.sampler.repetition_penalty = 1.05f;
    ask.params.sampler.presence_penalty = 0.2f;
    ask.params.sampler.dry_multiplier = 0.4f;
    asks.push_back(ask);
  }
  const auto results = [&](const BatcherParams& params) {
    Context context(model, {.n_ctx = 1024, .n_sequences = 12});
    Batcher batcher(context, params);
    std::vector<std::vector<std::pair<Token, float>>> tokens(asks.size());
    std::vector<std::string> texts(asks.size());
    for (std::size_t i = 0; i < asks.size(); ++i) {
      RequestParams of = asks[i].params;
      of.on_output = [&, i](const Output& output) {
        texts[i] += output.text;
        for (const OutputToken& token : output.tokens) tokens[i].emplace_back(token.id, token.logprob);
        return true;
      };
      batcher.submit(asks[i].prompt, of);
    }
    batcher.run();
    return std::tuple(tokens, texts, batcher.stats().n_drafted_tokens);
  };
  for (const bool stops : {false, true}) {
    const auto [tokens, texts, none] = results({});
    const auto [drafted_tokens, drafted_texts, n] =
        results({.speculation = Speculation::kNgram, .adapt_drafts = false});
    EXPECT_EQ(none, 0);
    EXPECT_GT(n, 0);
    EXPECT_TRUE(drafted_tokens == tokens);
    EXPECT_TRUE(drafted_texts == texts);
    for (std::size_t i = 0; i < asks.size() && !stops; ++i)
      asks[i].params.stop = {texts[i].substr(texts[i].size() / 2, 6)};
  }
}

TEST(Batcher, ASharedBeginningIsComputedOnce) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 2048, .n_sequences = 16});
  Batcher batcher(context);
  Collector collector;
  Ask ask;
  for (Token token = 10; token < 110; ++token) ask.prompt.push_back(token);
  ask.prompt.resize(104);
  ask.params.n_predict = 4;
  ask.params.sampler.temperature = 0.0f;
  for (Token i = 0; i < 20; ++i) {  // More than run at a time: the last ones find what the first ones left.
    ask.prompt.back() = 200 + i;
    collector.submit(batcher, ask);
  }
  batcher.run();
  EXPECT_EQ(batcher.stats().n_prompt_tokens, 104 + 19);
  EXPECT_EQ(batcher.stats().n_cached_tokens, 103 * 19);
}

TEST(Batcher, CompletionsOfOnePromptShareIt) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 1024, .n_sequences = 8});
  Batcher batcher(context);
  Collector collector;
  std::mt19937_64 random(5);
  Ask ask = random_ask(*model, random);
  for (Token token = 0; token < 50; ++token) ask.prompt.push_back(token + 30);
  ask.params.sampler.temperature = 1.2f;
  ask.params.sampler.seed = 42;
  ask.params.n = 5;
  ask.params.n_predict = 12;
  const RequestId id = collector.submit(batcher, ask);
  batcher.run();
  EXPECT_EQ(batcher.stats().n_prompt_tokens, static_cast<std::int64_t>(ask.prompt.size()) + 4);
  for (int i = 0; i < 5; ++i) {
    Ask single = ask;
    single.params.sampler.seed = 42u + static_cast<unsigned>(i);
    expect_same(collector(id, i), alone(model, single), "completion " + std::to_string(i));
  }
}

TEST(Batcher, ARequestThatFitsAloneIsServedInAFullCache) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 128, .n_sequences = 6});
  Batcher batcher(context);
  Collector collector;
  std::vector<RequestId> ids;
  std::vector<Ask> asks;
  std::mt19937_64 random(11);
  for (int i = 0; i < 6; ++i) {  // Each needs nearly all of the cache in the end.
    Ask ask = random_ask(*model, random, 40);
    ask.params.n_predict = 128 - static_cast<int>(ask.prompt.size());
    ask.params.ignore_end = true;
    asks.push_back(ask);
    ids.push_back(collector.submit(batcher, ask));
  }
  batcher.run();
  int n_preempted = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    expect_same(collector(ids[i]), alone(model, asks[i]), "request " + std::to_string(i));
    EXPECT_EQ(collector(ids[i]).stop, StopReason::kLength);
    n_preempted += collector(ids[i]).stats.n_preempted;
  }
  EXPECT_GT(n_preempted, 0);
}

TEST(Batcher, RejectsRequestsThatCannotFit) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 128, .n_sequences = 2});
  Batcher batcher(context);
  std::vector<Token> prompt(129, 5);
  try {
    batcher.submit(prompt, {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("129"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("128"), std::string::npos);
  }
  prompt.pop_back();
  Collector collector;
  const RequestId full = collector.submit(batcher, {prompt, {.n_predict = 5, .ignore_end = true}});
  batcher.run();
  EXPECT_EQ(collector(full).stop, StopReason::kContextFull);
  EXPECT_EQ(collector(full).tokens.size(), 1u);
  EXPECT_THROW(batcher.submit({}, {}), Error);
  const std::vector<Token> wrong = {1, model->info().n_vocab};
  EXPECT_THROW(batcher.submit(wrong, {}), Error);
  EXPECT_THROW(batcher.submit(std::span(prompt).first(3), {.n = 0}), Error);
  RequestParams strange;
  strange.sampler.top_p = 7.0f;
  EXPECT_THROW(batcher.submit(std::span(prompt).first(3), strange), Error);
  EXPECT_FALSE(batcher.step());
}

TEST(Batcher, EndlessSequencesSurvivePreemption) {
  const auto model = golden("llama");
  std::mt19937_64 random(2);
  std::vector<Ask> asks;
  for (int i = 0; i < 5; ++i) {
    Ask ask = random_ask(*model, random, 30);
    ask.params.n_predict = 150;
    ask.params.ignore_end = ask.params.context_shift = true;
    ask.params.n_ctx = 90;
    asks.push_back(ask);
  }
  std::vector<Result> references;
  for (const Ask& ask : asks) {
    Context context(model, {.n_ctx = 128, .n_sequences = 1});
    Batcher batcher(context);
    Collector collector;
    const RequestId id = collector.submit(batcher, ask);
    batcher.run();
    EXPECT_EQ(collector(id).tokens.size(), 150u);
    references.push_back(collector(id));
  }
  Context context(model, {.n_ctx = 200, .n_sequences = 5});
  Batcher batcher(context);
  Collector collector;
  std::vector<RequestId> ids;
  for (const Ask& ask : asks) ids.push_back(collector.submit(batcher, ask));
  while (batcher.step()) ASSERT_TRUE(batcher.consistent());
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_TRUE(collector(ids[i]) == references[i]) << i;
  EXPECT_GT(batcher.stats().n_preempted, 0);
}

TEST(Batcher, CancellingFreesEverythingAtOnce) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 4});
  Batcher batcher(context, {.reuse_prefixes = false});
  Collector collector;
  std::mt19937_64 random(4);
  Ask ask = random_ask(*model, random);
  ask.params.n_predict = -1;
  ask.params.ignore_end = true;
  ask.params.n = 2;
  const RequestId first = collector.submit(batcher, ask), second = collector.submit(batcher, ask);
  for (int i = 0; i < 5; ++i) batcher.step();
  EXPECT_GT(context.cache().cells_used(), 0);
  batcher.cancel(first);
  batcher.cancel(second);
  batcher.cancel(12345);
  EXPECT_EQ(context.cache().cells_used(), 0);
  EXPECT_TRUE(batcher.consistent());
  batcher.run();
  for (const RequestId id : {first, second})
    for (int i = 0; i < 2; ++i) EXPECT_EQ(collector(id, i).stop, StopReason::kCancelled);

  // From within, by the receiver itself and by another.
  int n_calls = 0;
  RequestId other = 0;
  ask.params.n = 1;
  ask.params.on_output = [&](const Output& output) {
    if (!output.done) ++n_calls;
    if (n_calls == 3) batcher.cancel(other);
    return n_calls < 3;
  };
  batcher.submit(ask.prompt, ask.params);
  ask.params.on_output = nullptr;
  other = batcher.submit(ask.prompt, ask.params);
  batcher.run();
  EXPECT_EQ(n_calls, 3);
  EXPECT_EQ(context.cache().cells_used(), 0);
}

// A user stops a response and asks again (ggml-org/llama.cpp#29163).
TEST(Batcher, CancelledCompletionsStayInThePrefixCache) {
  for (const char* family : {"llama", "gemma3", "mamba"}) {
    const auto model = golden(family);
    Context context(model, {.n_ctx = 512, .n_sequences = 4});
    Batcher batcher(context);
    Collector collector;
    Ask ask{prompt_of(100, 3), {.n_predict = 20, .ignore_end = true}};
    ask.params.sampler = {.seed = 4, .temperature = 0.8f};
    const RequestId first = collector.submit(batcher, ask);
    for (int i = 0; i < 5; ++i) batcher.step();
    batcher.cancel(first);
    EXPECT_TRUE(batcher.consistent());
    batcher.run();
    const Result& stopped = collector(first);
    EXPECT_EQ(stopped.stop, StopReason::kCancelled);
    // The next turn contains the response so far. Its last token was not computed.
    ask.prompt.insert(ask.prompt.end(), stopped.tokens.begin(), stopped.tokens.end());
    ask.prompt.push_back(7);
    const RequestId second = collector.submit(batcher, ask);
    batcher.run();
    EXPECT_EQ(collector(second).stats.n_cached, static_cast<int>(ask.prompt.size()) - 2) << family;
    expect_same(collector(second), alone(model, ask), family);
  }
}

TEST(Batcher, CompletionsCancelledBeforeTheirFirstTokenKeepNoSequence) {
  Context context(golden("llama"), {.n_ctx = 256, .n_sequences = 2});
  Batcher batcher(context);
  Collector collector;
  const RequestId id = collector.submit(batcher, {prompt_of(100, 3), {.n_predict = 1}});
  context.cancel();
  batcher.step();  // Admits it. Its batch is cancelled.
  EXPECT_EQ(batcher.n_running(), 1);
  batcher.cancel(id);
  batcher.run();
  EXPECT_EQ(collector(id).stop, StopReason::kCancelled);
  EXPECT_EQ(batcher.stats().sequences_cached, 0);
  EXPECT_TRUE(batcher.consistent());
}

TEST(Batcher, PromptsWithoutACompletionStayInThePrefixCache) {
  for (const char* family : {"llama", "mamba"}) {
    const auto model = golden(family);
    Context context(model, {.n_ctx = 512, .n_sequences = 2});
    Batcher batcher(context);
    Collector collector;
    Ask ask{prompt_of(100, 3), {.sampler = {.temperature = 0.0f}, .n_predict = 0}};
    const RequestId first = collector.submit(batcher, ask);
    batcher.run();
    EXPECT_EQ(collector(first).stop, StopReason::kLength);
    EXPECT_TRUE(collector(first).tokens.empty());
    EXPECT_GT(collector(first).stats.prefill_ms(), 0.0);
    EXPECT_EQ(collector(first).stats.decode_ms(), 0.0);
    ask.prompt.push_back(7);
    ask.params.n_predict = 8;
    const RequestId second = collector.submit(batcher, ask);
    batcher.run();
    EXPECT_EQ(collector(second).stats.n_cached, 100) << family;
    expect_same(collector(second), alone(model, ask), family);
  }
}

TEST(Batcher, StopStringsAndLogprobs) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 2});
  Batcher batcher(context);
  Collector collector;
  std::mt19937_64 random(9);
  Ask ask = random_ask(*model, random);
  ask.params.sampler.temperature = 0.0f;
  ask.params.n_predict = 20;
  ask.params.ignore_end = true;
  const Result whole = alone(model, ask);
  ASSERT_GE(whole.text.size(), 6u);
  ask.params.stop = {whole.text.substr(whole.text.size() / 2, 3)};
  const RequestId id = collector.submit(batcher, ask);
  std::vector<OutputToken> tokens;
  Ask with = ask;
  with.params.stop.clear();
  with.params.n_logprobs = 5;
  with.params.on_output = [&](const Output& output) {
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    return true;
  };
  batcher.submit(with.prompt, with.params);
  batcher.run();
  expect_same(collector(id), alone(model, ask), "with a stop string");
  EXPECT_EQ(collector(id).stop, StopReason::kStopString);
  ASSERT_EQ(tokens.size(), 20u);
  for (const OutputToken& token : tokens) {
    ASSERT_EQ(token.top.size(), 5u);
    EXPECT_EQ(token.top[0].id, token.id);  // Greedy.
    EXPECT_EQ(token.top[0].logprob, token.logprob);
    double sum = 0.0;
    for (std::size_t i = 0; i < 5; ++i) {
      sum += std::exp(token.top[i].logprob);
      EXPECT_LE(token.top[i].logprob, token.top[i > 0 ? i - 1 : 0].logprob);
    }
    EXPECT_LE(sum, 1.0 + 1e-5);
  }
}

TEST(Batcher, ALongPromptIsCutWhileOthersDecode) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 2048, .n_sequences = 2, .n_ubatch = 64});
  Batcher batcher(context);
  Collector collector;
  std::mt19937_64 random(1);
  Ask talker = random_ask(*model, random);
  talker.params.n_predict = 60;
  talker.params.ignore_end = true;
  const RequestId id = collector.submit(batcher, talker);
  for (int i = 0; i < 3; ++i) batcher.step();
  Ask reader;
  reader.prompt.assign(1000, 17);
  reader.params.n_predict = 1;
  const RequestId other = collector.submit(batcher, reader);
  while (!collector(other).done) {
    const std::size_t n = collector(id).tokens.size();
    batcher.step();
    EXPECT_GT(collector(id).tokens.size(), n - (collector(id).done ? 1 : 0));
  }
  EXPECT_GE(collector(id).tokens.size(), 15u);
}

/// Many requests to a server with a far too small cache: none is lost, none starves, none gets another's
/// tokens.
struct TinyCache {
  const char* model;
  ContextParams context;
  std::size_t max_prompt;
};

class TinyCaches : public testing::TestWithParam<TinyCache> {};

TEST_P(TinyCaches, TenThousandRequests) {
  const auto model = golden(GetParam().model);
  std::mt19937_64 random(99);
  std::vector<Ask> asks;
  std::vector<Result> references;
  for (int i = 0; i < 60; ++i) {
    asks.push_back(random_ask(*model, random, GetParam().max_prompt, 10));
    references.push_back(alone(model, asks.back()));
  }
  Context context(model, GetParam().context);
  Batcher batcher(context, {.speculation = Speculation::kNgram, .n_draft = 4, .adapt_drafts = false});
  constexpr int kRequests = 10000;
  std::map<RequestId, std::pair<std::size_t, Result>> open;
  int n_submitted = 0, n_cancelled = 0, n_finished = 0;
  while (n_submitted < kRequests || !open.empty()) {
    if (n_submitted < kRequests && open.size() < 40 && random() % 2 == 0) {
      for (std::uint64_t n = random() % 8; n > 0 && n_submitted < kRequests; --n, ++n_submitted) {
        const std::size_t which = random() % asks.size();
        RequestParams params = asks[which].params;
        params.snapshot_at = {static_cast<int>(asks[which].prompt.size() / 2)};
        params.on_output = [&, which](const Output& output) {
          Result& result = open[output.request].second;
          result.text += output.text;
          for (const OutputToken& token : output.tokens) result.tokens.push_back(token.id);
          if (!output.done) return true;
          result.done = true;
          result.stop = output.stop;
          if (output.stop == StopReason::kCancelled) {
            ++n_cancelled;
          } else {
            ++n_finished;
            expect_same(result, references[which], "request " + std::to_string(output.request));
          }
          open.erase(output.request);
          return true;
        };
        const RequestId id = batcher.submit(asks[which].prompt, std::move(params));
        open[id].first = which;
      }
    }
    if (!open.empty() && random() % 3 == 0) {
      auto victim = open.begin();
      std::advance(victim, static_cast<std::ptrdiff_t>(random() % open.size()));
      if (random() % 2 == 0) batcher.cancel(victim->first);
    }
    batcher.step();
    ASSERT_TRUE(batcher.stats().n_steps % 64 != 0 || batcher.consistent());
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_EQ(n_cancelled + n_finished, kRequests);
  EXPECT_GT(n_cancelled, kRequests / 10);
  EXPECT_GT(batcher.stats().n_preempted, 100);
  EXPECT_EQ(batcher.n_running() + batcher.n_waiting(), 0);
  EXPECT_TRUE(batcher.consistent());
  EXPECT_EQ(context.plan_stats().compiled, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Models, TinyCaches,
    testing::Values(
        TinyCache{"llama", {.n_ctx = 160, .n_sequences = 12, .n_threads = 1}, 40},
        TinyCache{"gemma3", {.n_ctx = 400, .n_sequences = 8, .n_threads = 1, .window_rewind = 0}, 160},
        TinyCache{"lfm2", {.n_ctx = 400, .n_sequences = 8, .n_threads = 1, .state_rewind = 30}, 160}),
    [](const auto& tested) { return std::string(tested.param.model); });

// --- Models whose sequences cannot be cut

struct Uncuttable {
  const char* model;
  int window_rewind;
};
class Snapshots : public testing::TestWithParam<Uncuttable> {
 protected:
  /// A prompt that begins with `n` tokens that all have.
  Ask ask(int n, int n_own, std::uint64_t seed) const {
    Ask result;
    std::mt19937_64 own(seed);
    const auto n_vocab = static_cast<std::uint64_t>(model->info().n_vocab);
    for (int i = 0; i < n; ++i) result.prompt.push_back(static_cast<Token>((10 + i * 7) % 200));
    for (int i = 0; i < n_own; ++i) result.prompt.push_back(static_cast<Token>(own() % n_vocab));
    result.params.n_predict = 6;
    result.params.ignore_end = true;
    result.params.sampler.temperature = 0.0f;
    return result;
  }
  const std::shared_ptr<const Model> model = golden(GetParam().model);
  const ContextParams params{.n_ctx = 4096, .n_sequences = 8, .window_rewind = GetParam().window_rewind};
};

TEST_P(Snapshots, RepeatedPrefixesAreKept) {
  Context context(model, params);
  ASSERT_FALSE(context.cache().cuts_anywhere());
  Batcher batcher(context);
  Collector collector;
  constexpr int kCommon = 150, kOwn = 90;
  std::int64_t computed = 0;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const Ask one = ask(kCommon, kOwn, i);
    const RequestId id = collector.submit(batcher, one);
    batcher.run();
    ASSERT_TRUE(batcher.consistent());
    Ask shorter = one;
    expect_same(collector(id), alone(model, shorter), "request " + std::to_string(i));
    const std::int64_t now = batcher.stats().n_prompt_tokens - computed;
    computed += now;
    // The first two compute all of it; the second one leaves what both have.
    EXPECT_EQ(now, i < 2 ? kCommon + kOwn : kOwn) << i;
  }
  EXPECT_EQ(batcher.stats().n_snapshots, 5 + 1);  // One is at the end of each prompt.
}

TEST_P(Snapshots, ConcurrentRequestsComputeTheirPrefixOnce) {
  Context context(model, params);
  Batcher batcher(context);
  Collector collector;
  std::vector<Ask> asks;
  std::vector<RequestId> ids;
  for (std::uint64_t i = 0; i < 5; ++i) {
    asks.push_back(ask(150, 40, i));
    ids.push_back(collector.submit(batcher, asks.back()));
  }
  while (batcher.step()) ASSERT_TRUE(batcher.consistent());
  for (std::size_t i = 0; i < ids.size(); ++i)
    expect_same(collector(ids[i]), alone(model, asks[i]), "together");
  EXPECT_EQ(batcher.stats().n_prompt_tokens, 150 + 5 * 40);
}

TEST_P(Snapshots, CompletionsOfOnePromptShareIt) {
  Context context(model, params);
  Batcher batcher(context);
  Collector collector;
  Ask one = ask(100, 30, 1);
  one.params.sampler.temperature = 1.0f;
  one.params.sampler.seed = 7;
  one.params.n = 6;
  const RequestId id = collector.submit(batcher, one);
  while (batcher.step()) ASSERT_TRUE(batcher.consistent());
  EXPECT_EQ(batcher.stats().n_prompt_tokens, 130 + 5);
  for (int i = 0; i < 6; ++i) {
    Ask single = one;
    single.params.sampler.seed = 7u + static_cast<unsigned>(i);
    expect_same(collector(id, i), alone(model, single), "completion " + std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Snapshots,
                         testing::Values(Uncuttable{"mamba", 256}, Uncuttable{"lfm2", 256},
                                         Uncuttable{"gemma3", 0}),
                         [](const auto& tested) { return std::string(tested.param.model); });

}  // namespace
}  // namespace weft
