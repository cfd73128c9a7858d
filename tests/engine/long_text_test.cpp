// A sequence of many pages, decoded a token at a time by several threads. They share the pages of one row,
// and logits have the same bits as with one thread and as a whole batch.
#include "engine/test_support.h"

namespace weft {
namespace {

class LongText : public testing::TestWithParam<const char*> {};

TEST_P(LongText, ThreadsThatShareARowsPagesChangeNoBit) {
  const auto model = Model::load(test::golden_dir() / GetParam() / "model.gguf");
  constexpr std::size_t kTokens = 1100, kAlone = 5;
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < kTokens; ++i)
    tokens.push_back(
        static_cast<Token>((i * i * 7 + i * 31 + 5) % static_cast<std::size_t>(model->info().n_vocab)));
  const auto last_logits = [&](int n_threads, std::size_t n_alone) {
    Context context(model, {.n_ctx = 1152, .n_threads = n_threads});
    Batch batch;
    for (std::size_t i = 0; i < kTokens;) {
      const std::size_t n = i < kTokens - n_alone ? std::min<std::size_t>(256, kTokens - n_alone - i) : 1;
      batch.clear();
      for (std::size_t j = 0; j < n; ++j, ++i) batch.add(tokens[i], 0, {.logits = i + 1 == kTokens});
      EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    }
    const auto logits = context.logits(batch.size() - 1);
    return std::vector<float>(logits.begin(), logits.end());
  };
  const std::vector<float> expected = last_logits(1, 0);
  for (const int n_threads : {1, 2, 3, 4})
    EXPECT_TRUE(last_logits(n_threads, kAlone) == expected) << n_threads << " threads";
}

INSTANTIATE_TEST_SUITE_P(Families, LongText, testing::Values("gemma3", "llama"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace weft
