// The two real models against PyTorch with their weights dequantised: how far the logits are, and that greedy
// ids agree wherever the reference is sure. Skipped where the models are not in the cache (make models).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/test_support.h"

namespace weft {
namespace {

struct RealModel {
  const char* file;
  const char* folder;
};

class Real : public testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    const auto path = test::cached_model(GetParam().file);
    if (!path) GTEST_SKIP() << GetParam().file << " is not in the model cache; make models fetches it";
    model = Model::load(*path);
    dir = test::golden_dir() / GetParam().folder;
    reference = nlohmann::json::parse(std::ifstream(dir / "reference.json"));
  }

  std::shared_ptr<const Model> model;
  std::filesystem::path dir;
  nlohmann::json reference;
};

std::span<const float> prefill(Context& context, std::span<const Token> tokens) {
  Batch batch;
  batch.add(tokens, 0);
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
  return context.logits(batch.size() - 1);
}

TEST_P(Real, LogitsAreAsNearToPyTorchAsLlamaCppsOrNearer) {
  std::vector<double> ours, theirs;
  for (const auto& prompt : reference["prompts"]) {
    Context context(model, {.n_ctx = 2048});
    const auto ids = prompt["ids"].get<std::vector<Token>>();
    const auto expected = test::read_floats(dir / (prompt["name"].get<std::string>() + ".logits.f32"));
    ours.push_back(test::nmse(prefill(context, ids), expected));
    theirs.push_back(prompt["llama_cpp"]["default"]["nmse_last_prompt_position"].get<double>());
    std::printf("%s %s: NMSE %.3g (llama.cpp %.3g)\n", GetParam().folder,
                prompt["name"].get<std::string>().c_str(), ours.back(), theirs.back());
    // Of one position; chance has a large part in that: with an F32 cache llama.cpp's 0.0094 are 0.0021.
    EXPECT_LE(ours.back(), 2e-2);
  }
  std::sort(ours.begin(), ours.end());
  std::sort(theirs.begin(), theirs.end());
  EXPECT_LE(ours[ours.size() / 2], theirs[theirs.size() / 2]);
}

TEST_P(Real, GreedyIdsAgreeWhereTheReferenceIsSure) {
  for (const auto& prompt : reference["prompts"]) {
    Context context(model, {.n_ctx = 2048});
    const auto ids = prompt["ids"].get<std::vector<Token>>();
    const auto greedy = prompt["greedy_ids"].get<std::vector<Token>>();
    const auto margins = prompt["greedy_margins"].get<std::vector<double>>();
    std::span<const float> logits = prefill(context, ids);
    Batch batch;
    for (std::size_t i = 0; i < greedy.size(); ++i) {
      const auto best = static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      if (margins[i] > 1.0) {
        EXPECT_EQ(best, greedy[i]) << prompt["name"] << " step " << i;
      }
      batch.clear();
      batch.add(greedy[i], 0, {.logits = true});
      ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
      logits = context.logits(0);
    }
  }
}

TEST_P(Real, ThePromptsTokenizeAsTheReferenceDoes) {
  for (const auto& prompt : reference["prompts"])
    EXPECT_EQ(model->tokenizer().encode(prompt["text"].get<std::string>()),
              prompt["ids"].get<std::vector<Token>>());
}

TEST_P(Real, PiecesAndThreadsChangeNoBit) {
  const auto ids = reference["prompts"][1]["ids"].get<std::vector<Token>>();
  std::vector<float> first;
  for (const int n_threads : {1, 2}) {
    for (const std::size_t piece : {ids.size(), std::size_t{5}}) {
      Context context(model, {.n_ctx = 512, .n_threads = n_threads});
      const std::vector<float> logits = test::all_logits(context, ids, piece);
      if (first.empty()) first = logits;
      EXPECT_TRUE(logits == first) << n_threads << " threads, pieces of " << piece;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Real,
                         testing::Values(RealModel{test::kSmolLm2, "real-smollm2"},
                                         RealModel{test::kGemma3, "real-gemma3"}),
                         [](const auto& test) { return std::string(test.param.folder).substr(5); });

}  // namespace
}  // namespace weft
