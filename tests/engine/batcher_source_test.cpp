// A batcher of a model with an encoder and a decoder. Every sequence has the same tokens as alone, with any
// sharing of steps, sources and the cache. Equal sources are computed once; invalid requests are refused.
#include "engine/batcher_testing.h"
#include "engine/source_testing.h"
#include "weft/service.h"

namespace weft {
namespace {

using test::alone;
using test::Ask;
using test::Collector;
using test::expect_same;
using test::golden;
using test::Result;

class BatcherSources : public testing::TestWithParam<const char*> {
 protected:
  const std::shared_ptr<const Model> model = golden(GetParam());
};

std::vector<Ask> random_asks(const Model& model, std::uint64_t seed, int n) {
  std::mt19937_64 random(seed);
  std::vector<Ask> asks;
  for (int i = 0; i < n; ++i) {
    asks.push_back(test::random_ask(model, random, 120, 20));
    if (i % 3 == 2) asks.back().prompt = asks[random() % static_cast<std::size_t>(i)].prompt;
    if (i % 5 == 4) asks.back().params.n_logprobs = 3;
    if (i % 7 == 6) asks.back().params.stop = {"a", "zq"};
  }
  return asks;
}

TEST_P(BatcherSources, MatchesEachRequestAlone) {
  std::vector<Ask> asks = random_asks(*model, 11, 24);
  // Requests in the background would wait instead of being preempted.
  for (Ask& ask : asks)
    if (ask.params.priority == kBackgroundPriority) ask.params.priority = 2;
  struct Setting {
    ContextParams context;
    BatcherParams batcher;
    bool is_tight = false;
  };
  const Setting settings[] = {
      {{.n_ctx = 512, .n_sequences = 12}, {}},
      // Room for little more than one sequence, so that running ones are preempted; all sequences are in use.
      {{.n_ctx = 24, .n_sequences = 3, .n_ubatch = 16}, {}, true},
      {{.n_ctx = 32, .n_sequences = 8, .n_ubatch = 16},
       {.n_running = 4, .speculation = Speculation::kNgram, .adapt_drafts = false},
       true},
      {{.n_ctx = 40, .n_sequences = 4}, {.max_step_ms = 1e-3, .reuse_prefixes = false}, true},
  };
  for (const Setting& setting : settings) {
    const std::string what = "n_ctx " + std::to_string(setting.context.n_ctx);
    Context context(model, setting.context);
    Collector collector;
    std::int64_t n_preempted = 0;
    {
      Batcher batcher(context, setting.batcher);
      std::vector<RequestId> ids;
      for (std::size_t i = 0; i < asks.size(); ++i) {
        ids.push_back(collector.submit(batcher, asks[i]));
        if (i % 4 == 3) {
          (void)batcher.step();
          ASSERT_TRUE(batcher.consistent()) << what;
        }
        if (i == 9) batcher.cancel(ids[8]);
        if (i == 11) batcher.pause(ids[11]);
      }
      for (int n = 0; batcher.step() || n < 3; ++n) {
        ASSERT_TRUE(batcher.consistent()) << what;
        if (n == 2) batcher.resume(ids[11]);
        ASSERT_LT(n, 5000) << what;
      }
      for (std::size_t i = 0; i < asks.size(); ++i)
        if (i != 8) expect_same(collector(ids[i]), alone(model, asks[i]), what + ", " + std::to_string(i));
      const BatcherStats stats = batcher.stats();
      n_preempted = stats.n_preempted;
      EXPECT_EQ(stats.n_failed_steps, 0) << what;
      EXPECT_EQ(stats.n_cached_tokens > 0, setting.batcher.reuse_prefixes) << what;
    }
    EXPECT_EQ(n_preempted > 0, setting.is_tight) << what;
    EXPECT_EQ(context.cache().cells_used(), 0);
    for (SeqId seq = 0; seq < context.params().n_sequences; ++seq) EXPECT_EQ(context.source_size(seq), 0);
    EXPECT_TRUE(context.cache().consistent());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, BatcherSources, testing::ValuesIn(test::kSourceReaders),
                         test::name_of_family);

class BatcherSource : public testing::Test {
 protected:
  const std::shared_ptr<const Model> model = golden("flan-t5");
  const test::GoldenSources data{"flan-t5"};

  static Ask ask_about(const std::vector<Token>& source, int n_predict = 6) {
    Ask ask{.prompt = source, .params = {}};
    ask.params.sampler.temperature = 0.0f;
    ask.params.n_predict = n_predict;
    ask.params.ignore_end = true;
    return ask;
  }
};

TEST_F(BatcherSource, EqualSourcesAreComputedOnce) {
  Context context(model, {.n_ctx = 512, .n_sequences = 8});
  std::vector<StepRecord> steps;
  Batcher batcher(context,
                  {.n_running = 4, .on_step = [&](const StepRecord& step) { steps.push_back(step); }});
  Collector collector;
  const auto n = static_cast<std::int64_t>(data.sources[0].size());
  Ask ask = ask_about(data.sources[0]);
  ask.params.n = 3;
  ask.params.sampler.temperature = 0.8f;
  ask.params.sampler.seed = 5;
  const RequestId branches = collector.submit(batcher, ask);
  batcher.run();
  EXPECT_EQ(batcher.stats().n_prompt_tokens, n);
  EXPECT_EQ(batcher.stats().n_cached_tokens, 2 * n);
  EXPECT_EQ(steps.front().n_prompt, n);
  EXPECT_EQ(steps.front().n_rows, n + 3);
  EXPECT_EQ(steps.back().n_prompt, 0);
  ask.params.n = 1;
  for (int i = 0; i < 3; ++i, ++ask.params.sampler.seed) {
    expect_same(collector(branches, i), alone(model, ask), "branch " + std::to_string(i));
    EXPECT_EQ(collector(branches, i).stats.n_prompt, n);
  }
  // A finished sequence serves the next one. With another source it does not, for any prefix.
  const RequestId again = collector.submit(batcher, ask_about(data.sources[0]));
  batcher.run();
  EXPECT_EQ(batcher.stats().n_prompt_tokens, n);
  EXPECT_EQ(collector(again).stats.n_cached, n);
  std::vector<Token> shorter = data.sources[0];
  shorter.pop_back();
  const RequestId other = collector.submit(batcher, ask_about(shorter));
  batcher.run();
  EXPECT_EQ(batcher.stats().n_prompt_tokens, 2 * n - 1);
  EXPECT_EQ(collector(other).stats.n_cached, 0);
  expect_same(collector(again), alone(model, ask_about(data.sources[0])), "again");
  expect_same(collector(other), alone(model, ask_about(shorter)), "shorter");
}

TEST_F(BatcherSource, OneSequenceServesAll) {
  Context context(model, {.n_ctx = 64, .n_sequences = 1});
  Batcher batcher(context, {});
  Collector collector;
  for (const auto& source : {data.sources[0], data.sources[0], data.sources[1], data.sources[0]}) {
    const RequestId id = collector.submit(batcher, ask_about(source, 60));
    batcher.run();
    expect_same(collector(id), alone(model, ask_about(source, 60)), "one of all");
    EXPECT_TRUE(batcher.consistent());
  }
}

TEST_F(BatcherSource, ConstrainedTextsAreTheirs) {
  Context context(model, {.n_ctx = 128, .n_sequences = 3});
  Batcher batcher(context, {});
  Collector collector;
  const std::vector<Token> script = {7, 5, 7, 9, 11, 5};
  Ask ask = ask_about(data.sources[1], static_cast<int>(script.size()));
  ask.params.constraint = test::Script::writes(script);
  const RequestId id = collector.submit(batcher, ask),
                  beside = collector.submit(batcher, ask_about(data.sources[2]));
  batcher.run();
  EXPECT_EQ(collector(id).tokens, script);
  expect_same(collector(beside), alone(model, ask_about(data.sources[2])), "beside it");
}

/// Texts that forget are kept when they are preempted, with their sources.
TEST_F(BatcherSource, ShiftedTextsAreAsAlone) {
  const auto written = [&](int n_requests, int n_ctx) {
    Context context(model, {.n_ctx = n_ctx, .n_sequences = 4});
    Batcher batcher(context, {.reuse_prefixes = n_requests == 1});
    Collector collector;
    std::vector<RequestId> ids;
    for (int i = 0; i < n_requests; ++i) {
      Ask ask = ask_about(data.sources[static_cast<std::size_t>(i) % 2], 70);
      ask.params.context_shift = true;
      ask.params.n_ctx = 20;
      ids.push_back(collector.submit(batcher, ask));
    }
    while (batcher.step()) EXPECT_TRUE(batcher.consistent());
    const bool preempted = batcher.stats().n_preempted > 0;
    EXPECT_EQ(preempted, n_requests > 1);
    return collector(ids[0]).tokens;
  };
  const std::vector<Token> tokens = written(1, 64);
  EXPECT_EQ(tokens.size(), 70u);
  EXPECT_EQ(written(4, 48), tokens);
}

TEST_F(BatcherSource, SourcesAreSavedAndTakenUp) {
  const std::vector<Token>& source = data.sources[0];
  Context context(model, {.n_ctx = 128, .n_sequences = 3}), second(model, {.n_ctx = 96, .n_sequences = 2});
  Batcher batcher(context, {}), other(second, {});
  Collector collector, of_other;
  EXPECT_EQ(batcher.save_prefix(source).n_tokens, 0);
  (void)collector.submit(batcher, ask_about(source));
  batcher.run();
  const SavedPrefix saved = batcher.save_prefix(source);
  EXPECT_EQ(saved.n_tokens, static_cast<int>(source.size()));
  const std::vector<Token> part(source.begin(), source.end() - 1);
  EXPECT_EQ(batcher.save_prefix(part).n_tokens, 0) << "a source is there as a whole";
  EXPECT_TRUE(batcher.consistent());

  EXPECT_EQ(other.restore_prefix(saved.state).tokens, source);
  EXPECT_TRUE(other.consistent());
  EXPECT_EQ(other.save_prefix(source).state.size(), saved.state.size());
  const RequestId id = of_other.submit(other, ask_about(source));
  other.run();
  EXPECT_EQ(of_other(id).stats.n_cached, static_cast<int>(source.size()));
  EXPECT_EQ(other.stats().n_prompt_tokens, 0);
  expect_same(of_other(id), alone(model, ask_about(source)), "from a saved source");
  EXPECT_EQ(other.forget_prefix(part), 1);
  EXPECT_EQ(other.save_prefix(source).n_tokens, 0);
  EXPECT_EQ(other.restore_prefix(saved.state).tokens, source);
  EXPECT_EQ(other.forget_prefix(data.sources[1]), 0);
  EXPECT_TRUE(other.consistent());
}

TEST_F(BatcherSource, RejectsInvalidSources) {
  Context context(model, {.n_ctx = 64, .n_sequences = 2, .n_source = 32});
  const auto draft = std::make_shared<Context>(model, ContextParams{.n_ctx = 64, .n_sequences = 2});
  test::expect_error(ErrorCode::kUnsupported, "draft model", [&] {
    const Batcher batcher(context, {.speculation = Speculation::kModel, .draft = draft});
  });
  Batcher batcher(context, {});
  const auto refused = [&](ErrorCode code, const char* part, auto change) {
    Ask ask = ask_about({5, 6, 7});
    change(ask);
    test::expect_error(code, part, [&] { (void)batcher.submit(ask.prompt, ask.params); });
  };
  refused(ErrorCode::kInvalidArgument, "n_source", [](Ask& ask) { ask.prompt.assign(33, 5); });
  refused(ErrorCode::kInvalidArgument, "empty", [](Ask& ask) { ask.prompt.clear(); });
  refused(ErrorCode::kInvalidArgument, "vocabulary", [](Ask& ask) { ask.prompt = {1 << 30}; });
  refused(ErrorCode::kUnsupported, "logprobs", [](Ask& ask) {
    ask.params.n_logprobs = 0;
    ask.params.prompt_logprobs = true;
  });
  refused(ErrorCode::kUnsupported, "embedding", [](Ask& ask) { ask.params.pooling = Pooling::kMean; });
  // A source may be longer than its sequences.
  Collector collector;
  Ask ask = ask_about(std::vector<Token>(32, 5), 4);
  ask.params.n_ctx = 8;
  const RequestId id = collector.submit(batcher, ask);
  batcher.run();
  EXPECT_EQ(collector(id).tokens.size(), 4u);
}

TEST_F(BatcherSource, WorksThroughAService) {
  Service service(Context(model, {.n_ctx = 256, .n_sequences = 4}), {});
  std::vector<Response> responses;
  for (std::size_t i = 0; i < 8; ++i)
    responses.push_back(service.submit(data.sources[i % 3], ask_about(data.sources[i % 3]).params));
  for (std::size_t i = 0; i < responses.size(); ++i) {
    Result result;
    for (Output chunk; responses[i].next(chunk);) {
      result.text += chunk.text;
      for (const OutputToken& token : chunk.tokens) result.tokens.push_back(token.id);
      result.done = chunk.done;
      result.stop = chunk.stop;
    }
    expect_same(result, alone(model, ask_about(data.sources[i % 3])), std::to_string(i));
  }
}

}  // namespace
}  // namespace weft
