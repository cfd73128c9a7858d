// Encoders of every family against transformers, and against themselves in other company: bit by bit. And
// what an embedder refuses.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/encoder_testing.h"

namespace weft {
namespace {

using test::GoldenEncoder;

class Encoders : public testing::TestWithParam<const char*> {};

TEST_P(Encoders, MatchTransformersInAnyBatch) {
  const GoldenEncoder golden(GetParam());
  for (const CpuIsa isa : test::kInstructionSets) {
    std::shared_ptr<const Model> model;
    try {
      model = Model::load(golden.model(), {.isa = isa});
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      continue;  // This machine lacks the instruction set.
    }
    test::expect_golden(model, golden, "isa" + std::to_string(static_cast<int>(isa)));
  }
}

TEST_P(Encoders, PoolingsAreOfTheTokensVectors) {
  const GoldenEncoder golden(GetParam());
  Embedder embedder(Model::load(golden.model()));
  const auto columns = static_cast<std::size_t>(embedder.dimensions());
  const std::vector<float> states = embedder.embed(golden.texts, Pooling::kNone),
                           means = embedder.embed(golden.texts, Pooling::kMean),
                           firsts = embedder.embed(golden.texts, Pooling::kCls),
                           lasts = embedder.embed(golden.texts, Pooling::kLast);
  std::size_t row = 0;
  for (std::size_t i = 0; i < golden.texts.size(); ++i) {
    const std::size_t n = golden.texts[i].tokens.size();
    const auto row_of = [&](const std::vector<float>& all, std::size_t r) {
      return std::span(all).subspan(r * columns, columns);
    };
    EXPECT_TRUE(std::ranges::equal(row_of(firsts, i), row_of(states, row))) << i;
    EXPECT_TRUE(std::ranges::equal(row_of(lasts, i), row_of(states, row + n - 1))) << i;
    std::vector<float> mean(columns);
    for (std::size_t j = 0; j < columns; ++j) {
      double sum = 0.0;
      for (std::size_t r = 0; r < n; ++r) sum += static_cast<double>(states[(row + r) * columns + j]);
      mean[j] = static_cast<float>(sum / static_cast<double>(n));
    }
    EXPECT_LE(test::nmse(row_of(means, i), mean), 1e-9) << i;
    row += n;
  }
}

TEST_P(Encoders, AreNoModelsForContexts) {
  const auto model = Model::load(GoldenEncoder(GetParam()).model());
  EXPECT_TRUE(model->info().encoder);
  try {
    Context context(model);
    FAIL() << "a context of an encoder";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("Embedder"));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Encoders, testing::ValuesIn(test::kEncoders), test::name_of_family);

/// The message of an Error of this kind that f throws.
template <typename F>
std::string error_of(ErrorCode code, F f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(EmbedderTest, RefusesTextsThatItCannotReadAndGoesOn) {
  const GoldenEncoder golden("bert");
  Embedder embedder(Model::load(golden.model()));
  EXPECT_EQ(embedder.max_tokens(), 96);
  const std::vector<float> expected = embedder.embed(golden.texts);
  const auto message = [&](const std::vector<Token>& tokens) {
    const TextTokens texts[] = {golden.texts[0], {tokens}};
    return error_of(ErrorCode::kInvalidArgument, [&] { (void)embedder.embed(texts); });
  };
  EXPECT_THAT(message({}), testing::HasSubstr("text 1 (counting from 0) has no tokens"));
  EXPECT_THAT(message(std::vector<Token>(97, 5)), testing::HasSubstr("97 tokens, but the limit is 96"));
  EXPECT_THAT(message({3, 512}), testing::HasSubstr("512"));
  EXPECT_THAT(message({3, -1}), testing::HasSubstr("-1"));
  const std::vector<Token> longest(96, 5);
  const TextTokens fits = {longest};
  EXPECT_EQ(embedder.embed(std::span(&fits, 1)).size(), 64u);
  EXPECT_TRUE(embedder.embed({}).empty());
  EXPECT_TRUE(embedder.embed(golden.texts) == expected);
  EXPECT_THAT(error_of(ErrorCode::kUnsupported, [&] { (void)embedder.score(golden.texts); }),
              testing::HasSubstr("classifier"));
  error_of(ErrorCode::kInvalidArgument, [] { Embedder none(nullptr); });
  error_of(ErrorCode::kInvalidArgument,
           [&] { Embedder none(Model::load(golden.model()), {.n_threads = -1}); });
  error_of(ErrorCode::kInvalidArgument,
           [&] { Embedder none(Model::load(golden.model()), {.n_tokens = -1}); });
}

TEST(EmbedderTest, TextsLongerThanAStepTakeSeveral) {
  // Learned positions limit the length of a sequence; rope does not.
  const GoldenEncoder golden("nomic-bert");
  const auto model = Model::load(golden.model());
  std::vector<Token> tokens(1500);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(2 + i * 7 % 500);
  const TextTokens text = {tokens};
  Embedder embedder(model, {.n_tokens = 2000});
  EXPECT_EQ(embedder.max_tokens(), 2000);
  const std::vector<float> alone = embedder.embed(std::span(&text, 1), Pooling::kMean);
  std::vector<TextTokens> many(40, golden.texts[1]);
  many.insert(many.begin() + 20, text);
  const std::vector<float> together = embedder.embed(many, Pooling::kMean);
  ASSERT_EQ(together.size(), 41u * 64u);
  EXPECT_TRUE(std::ranges::equal(std::span(together).subspan(std::size_t{20} * 64, 64), alone));
}

TEST(EmbedderTest, PoolsHiddenStatesOfDecoders) {
  const auto model = Model::load(test::golden_dir() / "qwen3" / "model.gguf");
  const std::vector<Token> tokens = test::read_tokens(test::golden_dir() / "qwen3" / "tokens.json");
  EXPECT_FALSE(model->info().encoder);
  Context context(model, {.n_ctx = 128});
  Batch batch;
  for (int i = 0; i < static_cast<int>(tokens.size()); ++i) {
    batch.add(tokens[static_cast<std::size_t>(i)], 0, {.embedding = true});
  }
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  std::vector<float> states;
  for (int i = 0; i < batch.size(); ++i)
    states.insert(states.end(), context.embedding(i).begin(), context.embedding(i).end());

  Embedder embedder(model);
  EXPECT_EQ(embedder.n_scores(), 0);
  const auto n = static_cast<std::size_t>(embedder.dimensions());
  ASSERT_EQ(n, static_cast<std::size_t>(model->info().n_embd));
  const TextTokens texts[] = {{std::span(tokens).first(9)}, {tokens}, {std::span(tokens).subspan(3, 4)}};
  const std::vector<float> all = embedder.embed(texts, Pooling::kNone);
  ASSERT_EQ(all.size(), (9 + tokens.size() + 4) * n);
  EXPECT_TRUE(std::ranges::equal(std::span(all).first(9 * n), std::span(states).first(9 * n)));
  EXPECT_TRUE(std::ranges::equal(std::span(all).subspan(9 * n, states.size()), states));
  EXPECT_TRUE(test::one_by_one(embedder, texts, Pooling::kNone) == all);
  const std::vector<float> lasts = embedder.embed(texts, Pooling::kLast);
  EXPECT_TRUE(std::ranges::equal(std::span(lasts).subspan(n, n), std::span(states).last(n)));
  const std::vector<float> means = embedder.embed(texts, Pooling::kMean);
  std::vector<float> mean(n);
  for (std::size_t j = 0; j < n; ++j) {
    double sum = 0.0;
    for (std::size_t t = 0; t < tokens.size(); ++t) sum += static_cast<double>(states[t * n + j]);
    mean[j] = static_cast<float>(sum / static_cast<double>(tokens.size()));
  }
  EXPECT_TRUE(std::ranges::equal(std::span(means).subspan(n, n), mean));
  EXPECT_TRUE(test::one_by_one(embedder, texts, Pooling::kMean) == means);
  EXPECT_THROW((void)embedder.score(texts), Error);
}

/// Vectors depend on the start of a sequence's second segment.
TEST(EmbedderTest, TypesOfTokensAreSeen) {
  const GoldenEncoder golden("bert");
  Embedder embedder(Model::load(golden.model()));
  const TextTokens whole = {golden.texts[1].tokens}, parted = {golden.texts[1].tokens, 3},
                   elsewhere = {golden.texts[1].tokens, 4};
  const std::vector<float> one = embedder.embed(std::span(&whole, 1)),
                           other = embedder.embed(std::span(&parted, 1));
  EXPECT_NE(one, other);
  EXPECT_NE(other, embedder.embed(std::span(&elsewhere, 1)));
}

TEST(EmbedderTest, PairsAreCutAtTheDocument) {
  const auto model = Model::load(GoldenEncoder("bert-rank").model());
  const Tokenizer& tokenizer = model->tokenizer();
  const TokenPair pair = pair_tokens(tokenizer, "what is it", "a long answer to that", 96);
  ASSERT_GT(pair.second, 0);
  const TokenPair cut = pair_tokens(tokenizer, "what is it", "a long answer to that", pair.second + 2);
  EXPECT_EQ(cut.tokens.size(), static_cast<std::size_t>(pair.second) + 2);
  EXPECT_EQ(cut.second, pair.second);
  EXPECT_TRUE(std::equal(pair.tokens.begin(), pair.tokens.begin() + pair.second, cut.tokens.begin()));
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument,
                       [&] { (void)pair_tokens(tokenizer, "what is it", "x", pair.second); }),
              testing::HasSubstr("leaves none"));
}

TEST(EmbedderTest, PairsOfWordPiecesHaveBertsMarks) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "weft-pairs-vocab.txt";
  std::ofstream(path) << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n";
  const Tokenizer tokenizer = read_word_pieces(path);
  const TokenPair pair = pair_tokens(tokenizer, "a", "b c", 16);
  EXPECT_EQ(pair.tokens, (std::vector<Token>{2, 5, 3, 6, 7, 3}));
  EXPECT_EQ(pair.second, 3);
  EXPECT_EQ(pair_tokens(tokenizer, "a", "b c", 5).tokens, (std::vector<Token>{2, 5, 3, 6, 3}));
  const PairTokens pairs(tokenizer, "a", 16);
  EXPECT_EQ(pairs.with("b c").tokens, pair.tokens);
  EXPECT_EQ(pairs.with("").tokens, (std::vector<Token>{2, 5, 3, 3}));
  EXPECT_EQ(pairs.with("c").second, 3);
  EXPECT_EQ(tokens_of_text(tokenizer, ""), (std::vector<Token>{2, 3}));
  EXPECT_EQ(cut_tokens(tokenizer, {2, 5, 6, 7, 3}, 3), (std::vector<Token>{2, 5, 3}));
  EXPECT_EQ(cut_tokens(tokenizer, {2, 5, 3}, 3), (std::vector<Token>{2, 5, 3}));
  std::filesystem::remove(path);
}

TEST(EmbedderTest, RanksTheBestFirst) {
  const float scores[] = {0.5f, -2.0f, 40.0f, std::numeric_limits<float>::quiet_NaN(), 41.0f, 0.5f};
  std::vector<int> order;
  for (const Ranked& one : rank(scores)) order.push_back(one.index);
  EXPECT_EQ(order, (std::vector<int>{4, 2, 0, 5, 1, 3}));
  EXPECT_FLOAT_EQ(rank(std::span(scores).first(1))[0].score, 1.0f / (1.0f + std::exp(-0.5f)));
}

TEST(EmbedderTest, NormaliseMakesTheLengthOne) {
  std::vector<float> vector = {3.0f, 4.0f};
  normalise(vector);
  EXPECT_FLOAT_EQ(vector[0], 0.6f);
  EXPECT_FLOAT_EQ(vector[1], 0.8f);
  std::vector<float> zeros(3);
  normalise(zeros);
  EXPECT_EQ(zeros, std::vector<float>(3));
}

}  // namespace
}  // namespace weft
