// Tokens that a model reads and never generates: Chameleon's image tokens.
#include <limits>
#include <string>
#include <vector>

#include "engine/model_draft.h"

namespace weft {
namespace {

TEST(LeftOut, ImageTokensHaveTheLeastLogitsAndAreNotAmongTheBest) {
  constexpr Token kFirst = 4, kEnd = 8196;
  constexpr std::int64_t kVocabulary = 8200, kWidth = 64;
  test::Draft draft("chameleon");
  const gguf::File& good = draft.original();
  std::vector<std::string> texts = *good.get_strings("tokenizer.ggml.tokens");
  std::vector<std::int64_t> kinds = *good.get_ints("tokenizer.ggml.token_type");
  for (auto i = static_cast<std::int64_t>(texts.size()); i < kVocabulary; ++i) {
    texts.push_back("<picture " + std::to_string(i) + ">");
    kinds.push_back(1);
  }
  draft.set_array("tokenizer.ggml.tokens", texts)
      .set_array("tokenizer.ggml.token_type", std::vector<std::int32_t>(kinds.begin(), kinds.end()));
  for (const char* const name : {"token_embd.weight", "output.weight"})
    draft.tensor(name).reshape({kVocabulary, kWidth});  // The added rows give 0.
  const test::DraftFile file(draft);
  Context context(Model::load(file.path()), {.n_ctx = 64});
  Context golden(Model::load(test::golden_dir() / "chameleon" / "model.gguf"), {.n_ctx = 64});
  Batch batch, all;
  batch.add(7, 0, {.logits = true});
  batch.add(9, 0, {.logits = true, .n_best = 8});
  all.add(7, 0, {.logits = true});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  ASSERT_EQ(golden.decode(all), DecodeStatus::kOk);
  const std::span<const float> logits = context.logits(0);
  ASSERT_EQ(logits.size(), static_cast<std::size_t>(kVocabulary));
  for (Token token = 0; token < kVocabulary; ++token) {
    const float expected = token < kFirst ? golden.logits(0)[static_cast<std::size_t>(token)]
                           : token < kEnd ? std::numeric_limits<float>::lowest()
                                          : 0.0f;
    EXPECT_EQ(logits[static_cast<std::size_t>(token)], expected) << token;
  }
  // There are as many others.
  for (const Best& best : context.best(1)) EXPECT_TRUE(best.id < kFirst || best.id >= kEnd) << best.id;
}

}  // namespace
}  // namespace weft
