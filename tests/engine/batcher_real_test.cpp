// The batcher on the real models: 32 streams come and go, and each has the same tokens as alone.
#include <random>

#include "engine/test_support.h"
#include "weft/batcher.h"
#include "weft/generate.h"

namespace weft {
namespace {

class BatcherReal : public testing::TestWithParam<const char*> {};

TEST_P(BatcherReal, ThirtyTwoStreamsAreEachAsIfAlone) {
  const auto path = test::cached_model(GetParam());
  if (!path) GTEST_SKIP() << GetParam() << " is not in the model cache; make models fetches it";
  const auto model = Model::load(*path);
  constexpr int kStreams = 32, kChecked = 8;
  const std::vector<Token> system = model->tokenizer().encode(
      "You are a helpful assistant. Answer in one sentence, and be kind to those who ask the same thing "
      "twice.");
  const char* const questions[] = {"What is the capital of France?", "Why is the sky blue?",
                                   "Who wrote Hamlet?", "How many legs does a spider have?"};
  std::mt19937 random(1);
  std::vector<std::vector<Token>> prompts;
  std::vector<int> lengths;
  for (int i = 0; i < kStreams; ++i) {
    std::vector<Token> prompt = system;
    const auto question = model->tokenizer().encode(
        questions[i % 4] + std::string(" (") + std::to_string(i) + ")\n", {.add_special = false});
    prompt.insert(prompt.end(), question.begin(), question.end());
    prompts.push_back(std::move(prompt));
    lengths.push_back(8 + static_cast<int>(random() % 24));
  }
  std::vector<std::vector<Token>> expected;
  for (int i = 0; i < kChecked; ++i) {
    Context context(model, {.n_ctx = 256});
    Sampler sampler({.temperature = 0.0f}, model->info().n_vocab);
    expected.push_back(generate(context, sampler, prompts[static_cast<std::size_t>(i)],
                                {.n_predict = lengths[static_cast<std::size_t>(i)], .ignore_end = true})
                           .tokens);
  }
  struct Setting {
    const char* name;
    ContextParams context;
    BatcherParams batcher;
  };
  for (const Setting& setting :
       {Setting{"together", {.n_ctx = 4096, .n_sequences = 32}, {}},
        Setting{"one thread, small steps",
                {.n_ctx = 4096, .n_sequences = 32, .n_ubatch = 40, .n_threads = 1},
                {}},
        Setting{"a cache too small", {.n_ctx = 320, .n_sequences = 32}, {}},
        Setting{"with drafts", {.n_ctx = 4096, .n_sequences = 32}, {.speculation = Speculation::kNgram}}}) {
    Context context(model, setting.context);
    Batcher batcher(context, setting.batcher);
    std::vector<std::vector<Token>> texts(kStreams);
    for (std::size_t i = 0; i < kStreams; ++i) {
      RequestParams params;
      params.sampler.temperature = 0.0f;
      params.n_predict = lengths[i];
      params.ignore_end = true;
      params.on_output = [&texts, i](const Output& output) {
        for (const OutputToken& token : output.tokens) texts[i].push_back(token.id);
        return true;
      };
      const RequestId id = batcher.submit(prompts[i], params);
      if (random() % 3 == 0) batcher.step();
      if (i >= kChecked && random() % 6 == 0) batcher.cancel(id);
    }
    batcher.run();
    for (std::size_t i = 0; i < kChecked; ++i)
      EXPECT_TRUE(texts[i] == expected[i]) << setting.name << ", stream " << i;
    EXPECT_TRUE(batcher.consistent());
    EXPECT_EQ(context.plan_stats().compiled, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BatcherReal, testing::Values(test::kSmolLm2, test::kGemma3),
                         [](const auto& tested) {
                           return std::string(tested.index == 0 ? "smollm2" : "gemma3");
                         });

}  // namespace
}  // namespace weft
