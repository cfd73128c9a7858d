// Requests with different adapters in one batcher: each has the same result as alone. Only requests with the
// same adapters share prefixes.
#include "engine/adapter_testing.h"
#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::Ask;
using test::Collector;
using test::Result;

using Uses = std::vector<AdapterUse>;

class AdaptedBatcher : public testing::TestWithParam<const char*> {
 protected:
  AdaptedBatcher() {
    const auto path = test::golden_dir() / GetParam() / "model.gguf";
    const gguf::File file = gguf::File::open(path);
    ModelParams params;
    for (std::uint64_t i = 0; i < 3; ++i)
      params.adapters.push_back(
          {test::write_adapter(file, test::random_adapter(file, i, 4 + 3 * static_cast<std::int64_t>(i)),
                               "batched" + std::to_string(i)),
           std::to_string(i)});
    model = Model::load(path, params);
    for (const AdapterFile& adapter : params.adapters) std::filesystem::remove(adapter.path);
  }
  Result alone(const Ask& ask) const {
    Context context(model, {.n_ctx = 256, .n_threads = 1, .adapters = ask.params.adapters.value_or(Uses{})});
    Sampler sampler(ask.params.sampler, model->info().n_vocab);
    GenerateParams params;
    params.n_predict = ask.params.n_predict;
    params.ignore_end = ask.params.ignore_end;
    const Generation g = generate(context, sampler, ask.prompt, params);
    return {.text = g.text, .tokens = g.tokens, .done = true, .stop = g.stop, .stats = {}};
  }
  static Result run(Batcher& batcher, const Ask& ask) {
    Collector collector;
    const RequestId id = collector.submit(batcher, ask);
    batcher.run();
    EXPECT_TRUE(batcher.consistent());
    return collector(id);
  }
  Ask ask_of(std::optional<Uses> uses) const {
    Ask ask;
    ask.prompt = test::prompt_of(70, 5);
    ask.params.sampler.temperature = 0.0f;
    ask.params.n_predict = 6;
    ask.params.ignore_end = true;
    ask.params.adapters = std::move(uses);
    return ask;
  }

  std::shared_ptr<const Model> model;
};

TEST_P(AdaptedBatcher, EachRequestGetsWhatItGetsAlone) {
  const Uses choices[] = {{}, {{0, 1.0f}}, {{1, 1.0f}}, {{2, -0.7f}}, {{0, 0.5f}, {2, 1.0f}}, {{0, 2.0f}}};
  std::mt19937_64 random(3);
  Collector collector;
  // A cache that some must leave, and sequences for some only.
  Context context(model, {.n_ctx = 320, .n_sequences = 6, .n_ubatch = 32, .n_threads = 1});
  Batcher batcher(context, {.n_running = 4, .speculation = Speculation::kNgram});
  std::vector<std::pair<RequestId, Ask>> asked;
  for (int i = 0; i < 24; ++i) {
    Ask ask = test::random_ask(*model, random);
    ask.params.adapters = choices[random() % std::size(choices)];
    asked.emplace_back(collector.submit(batcher, ask), ask);
    for (std::uint64_t steps = random() % 4; steps > 0; --steps) batcher.step();
  }
  batcher.run();
  EXPECT_TRUE(batcher.consistent());
  for (const auto& [id, ask] : asked)
    test::expect_same(collector(id), alone(ask), "request " + std::to_string(id));
}

TEST_P(AdaptedBatcher, BeginningsAreSharedByThoseWithTheSameAdapters) {
  Context context(model, {.n_ctx = 1024, .n_sequences = 12, .n_threads = 1, .adapters = {{1, 1.0f}}});
  Batcher batcher(context, {.n_running = 1});
  const Uses x = {{0, 1.0f}}, y = {{0, 0.5f}};
  for (int round = 0; round < 3; ++round)
    for (const std::optional<Uses>& uses :
         {std::optional<Uses>(x), std::optional<Uses>(y), std::optional<Uses>(Uses{})}) {
      const Ask ask = ask_of(uses);
      const Result result = run(batcher, ask);
      test::expect_same(result, alone(ask), "round " + std::to_string(round));
      if (round == 0) {
        EXPECT_EQ(result.stats.n_cached, 0);
      }
      if (round == 2) {
        EXPECT_GT(result.stats.n_cached, 0);
      }
    }
  // A request without adapters uses the context's own.
  Ask own = ask_of(Uses{{1, 1.0f}});
  const Result expected = alone(own);
  EXPECT_EQ(run(batcher, own).stats.n_cached, 0);
  own.params.adapters.reset();
  EXPECT_TRUE(run(batcher, own) == expected);
}

TEST_P(AdaptedBatcher, TextsOfAnyAdaptersAreSaved) {
  const Uses uses = {{0, 0.5f}, {1, 1.0f}};
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context);
  const Ask ask = ask_of(uses);
  std::vector<Token> text = ask.prompt;
  const Result written = run(batcher, ask);
  text.insert(text.end(), written.tokens.begin(), written.tokens.end());
  EXPECT_EQ(batcher.save_prefix(text).n_tokens, 0);
  EXPECT_EQ(batcher.save_prefix(text, Uses{{0, 0.5f}}).n_tokens, 0);
  EXPECT_THROW(batcher.save_prefix(text, Uses{{7, 1.0f}}), Error);
  const SavedPrefix saved = batcher.save_prefix(text, uses);
  ASSERT_GT(saved.n_tokens, 0);
  Context second(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  Batcher taker(second);
  const RestoredPrefix restored = taker.restore_prefix(saved.state);
  EXPECT_EQ(restored.adapters, uses);
  EXPECT_EQ(restored.tokens, std::vector<Token>(text.begin(), text.begin() + saved.n_tokens));
  EXPECT_EQ(taker.save_prefix(restored.tokens, restored.adapters).n_tokens, saved.n_tokens);
}

TEST_P(AdaptedBatcher, SavedTextsAreThoseOfTheContextsAdapters) {
  const Uses usual = {{1, 1.0f}};
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1, .adapters = usual});
  Batcher batcher(context);
  const Ask other = ask_of(Uses{{0, 1.0f}}), own = ask_of(std::nullopt);
  run(batcher, other);
  EXPECT_EQ(batcher.save_prefix(other.prompt).n_tokens, 0);
  const Result written = run(batcher, own);
  std::vector<Token> text = own.prompt;
  text.insert(text.end(), written.tokens.begin(), written.tokens.end());
  const SavedPrefix saved = batcher.save_prefix(text);
  ASSERT_GT(saved.n_tokens, 0);

  Context second(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  Batcher taker(second);
  taker.restore_prefix(saved.state);
  Ask again = own;
  again.prompt.assign(text.begin(), text.begin() + saved.n_tokens);
  again.prompt.push_back(3);
  EXPECT_EQ(run(taker, again).stats.n_cached, 0);  // This context writes without any.
  again.params.adapters = usual;
  const Result result = run(taker, again);
  EXPECT_EQ(result.stats.n_cached, saved.n_tokens);
  test::expect_same(result, alone(again), "what goes on from it");
}

TEST_P(AdaptedBatcher, WrongAdaptersAreRefusedWhenTheyAreSubmitted) {
  Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1});
  Batcher batcher(context);
  Collector collector;
  EXPECT_THROW(collector.submit(batcher, ask_of(Uses{{3, 1.0f}})), Error);
  EXPECT_THROW(collector.submit(batcher, ask_of(Uses{{0, 1.0f}, {0, 1.0f}})), Error);
  EXPECT_EQ(batcher.n_waiting(), 0);
}

INSTANTIATE_TEST_SUITE_P(Families, AdaptedBatcher,
                         testing::Values("llama", "gemma3", "mamba", "lfm2", "mixtral"),
                         test::name_of_family);

}  // namespace
}  // namespace weft
