// What tokens of a batch see of each other, and embeddings in tokens' places.
#include <cmath>

#include "engine/test_support.h"
#include "gguf/gguf.h"
#include "tensor/codec.h"

namespace weft {
namespace {

class Visibility : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path = test::golden_dir() / GetParam() / "model.gguf";
    model = Model::load(path);
    tokens = test::read_tokens(test::golden_dir() / GetParam() / "tokens.json");
    tokens.resize(20);
  }
  std::vector<float> logits(const Batch& batch, ContextParams params = {.n_ctx = 256}) const {
    Context context(model, params);
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    std::vector<float> result;
    for (int i = 0; i < batch.size(); ++i) {
      const auto row = context.logits(i);
      result.insert(result.end(), row.begin(), row.end());
    }
    return result;
  }
  Batch text() const {
    Batch batch;
    for (const Token token : tokens) batch.add(token, 0, {.logits = true});
    return batch;
  }

  std::filesystem::path path;
  std::shared_ptr<const Model> model;
  std::vector<Token> tokens;
};

TEST_P(Visibility, AHiddenTokenIsAsIfItWereNotThere) {
  constexpr int kHidden = 7;
  Batch batch = text(), without;
  for (int i = kHidden + 1; i < batch.size(); ++i) batch.hide(i, kHidden);
  for (int i = 0; i < batch.size(); ++i)
    if (i != kHidden) without.add(tokens[static_cast<std::size_t>(i)], 0, {.logits = true, .pos = i});
  std::vector<float> seen = logits(batch);
  const auto row = seen.begin() + std::ptrdiff_t{kHidden} * model->info().n_vocab;
  seen.erase(row, row + model->info().n_vocab);
  EXPECT_TRUE(seen == logits(without));
  EXPECT_FALSE(logits(text()) == logits(batch));
}

TEST_P(Visibility, HidingLaterTokensIsCausal) {
  const std::vector<float> expected = logits(text());
  Batch both_ways = text();
  for (int i = 0; i < both_ways.size(); ++i)
    test::set(both_ways, i, &ItemOptions::attend_to, both_ways.size());
  const std::vector<float> all = logits(both_ways);
  EXPECT_FALSE(all == expected);
  for (const float x : all) ASSERT_TRUE(std::isfinite(x));
  for (int i = 0; i < both_ways.size(); ++i)
    for (int later = i + 1; later < both_ways.size(); ++later) both_ways.hide(i, later);
  EXPECT_TRUE(logits(both_ways) == expected);
}

TEST_P(Visibility, AnEndBeforeItsOwnPositionHidesNothing) {
  Batch batch = text();
  for (int i = 1; i < batch.size(); ++i) test::set(batch, i, &ItemOptions::attend_to, i % 3 == 0 ? i : 1);
  EXPECT_TRUE(logits(batch) == logits(text()));
}

TEST_P(Visibility, APrefixIsReadBothWaysAndTheRestInOrder) {
  // Whether the rest comes along or later is the same to it.
  constexpr int kPrefix = 12;
  Batch batch = text();
  for (int i = 0; i < kPrefix; ++i) test::set(batch, i, &ItemOptions::attend_to, kPrefix);
  const std::vector<float> together = logits(batch);
  Context context(model, {.n_ctx = 256});
  Batch prefix;
  for (int i = 0; i < kPrefix; ++i) prefix.add(tokens[static_cast<std::size_t>(i)], 0, {.logits = true});
  for (int i = 0; i < kPrefix; ++i) test::set(prefix, i, &ItemOptions::attend_to, kPrefix);
  ASSERT_EQ(context.decode(prefix), DecodeStatus::kOk);
  const std::vector<float> rest = test::all_logits(context, std::span(tokens).subspan(kPrefix), 3);
  EXPECT_TRUE(
      std::equal(rest.begin(), rest.end(), together.end() - static_cast<std::ptrdiff_t>(rest.size())));
}

TEST_P(Visibility, LaterStepsAreInvisible) {
  Batch batch = text();
  test::set(batch, 3, &ItemOptions::attend_to, batch.size());
  Context context(model, {.n_ctx = 256, .n_ubatch = 8});
  try {
    (void)context.decode(batch);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("ubatch"), std::string::npos) << error.what();
  }
  EXPECT_EQ(context.cache().cells_used(), 0);
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(Visibility, EmbeddingsStandInTokensPlaces) {
  const gguf::File file = gguf::File::open(path);
  const gguf::TensorInfo& table = *file.find_tensor("token_embd.weight");
  const auto n_embd = static_cast<std::size_t>(model->info().n_embd);
  const std::size_t row = row_bytes(table.dtype, model->info().n_embd);
  const float scale = std::string(GetParam()) == "gemma3" ? std::sqrt(static_cast<float>(n_embd)) : 1.0f;
  Batch batch;
  std::vector<float> embedding(n_embd);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    unpack_row(table.dtype, table.data.data() + static_cast<std::size_t>(tokens[i]) * row, embedding);
    for (float& x : embedding) x *= scale;
    if (i % 3 == 1) {
      batch.add(tokens[i], 0, {.logits = true});
    } else {
      batch.add(std::span<const float>(embedding), 0, {.logits = true});
    }
  }
  EXPECT_TRUE(logits(batch) == logits(text()));
  EXPECT_TRUE(logits(batch, {.n_ctx = 256, .n_ubatch = 7}) == logits(text()));
  batch.clear();
  batch.add(std::span<const float>(embedding).first(n_embd - 1), 0);
  Context context(model, {.n_ctx = 256});
  EXPECT_THROW((void)context.decode(batch), Error);
}

TEST_P(Visibility, WrongItemsAreRefused) {
  Batch batch = text();
  EXPECT_THROW(test::set(batch, 20, &ItemOptions::attend_to, 3), Error);
  EXPECT_THROW(batch.hide(1, 1), Error);
  EXPECT_THROW(batch.hide(1, 20), Error);
  Context context(model, {.n_ctx = 256, .n_sequences = 2});
  batch.add(5, 1);
  batch.hide(0, 20);
  EXPECT_THROW((void)context.decode(batch), Error);
  Batch beyond = text();
  test::set(beyond, 0, &ItemOptions::attend_to, 1 << 30);
  EXPECT_THROW((void)context.decode(beyond), Error);
  EXPECT_EQ(context.cache().cells_used(), 0);
}

INSTANTIATE_TEST_SUITE_P(Families, Visibility, testing::Values("llama", "gemma3", "qwen3moe", "gpt2"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace weft
