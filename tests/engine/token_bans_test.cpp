// Bans of tokens, of words and of all tokens outside of a list.
#include "weft/token_bans.h"

#include <limits>

#include "engine/batcher_testing.h"
#include "engine/error_testing.h"

namespace weft {
namespace {

using test::Ask;
using test::Collector;
using test::golden;

constexpr float kBan = -std::numeric_limits<float>::infinity();

/// Draws at random among all allowed tokens.
RequestParams random_request(int n_predict) {
  RequestParams params = {.n_predict = n_predict, .ignore_end = true};
  params.sampler = {.seed = 1, .temperature = 100.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f};
  return params;
}

class TokenBansOf : public testing::Test {
 protected:
  std::vector<Token> generated(RequestParams params, const TokenBans& bans) {
    ban_tokens(params, bans, tokenizer_);
    Context context(model_, {.n_ctx = 256, .n_sequences = 4, .n_threads = 1});
    Batcher batcher(context, {.speculation = Speculation::kNgram});
    Collector collector;
    const RequestId id = collector.submit(batcher, {.prompt = {1, 5, 9}, .params = params});
    batcher.run();
    return collector(id).tokens;
  }
  static int occurrences(const std::vector<Token>& tokens, const std::vector<Token>& sequence) {
    int n = 0;
    for (auto at = tokens.begin();; ++at) {
      at = std::search(at, tokens.end(), sequence.begin(), sequence.end());
      if (at == tokens.end()) return n;
      ++n;
    }
  }

  const std::shared_ptr<const Model> model_ = golden("llama");
  const Tokenizer& tokenizer_ = model_->tokenizer();
};

TEST_F(TokenBansOf, OnlyAllowedTokensAreGenerated) {
  const std::vector<Token> tokens = generated(random_request(40), {.allowed = {7, 9}});
  EXPECT_EQ(tokens.size(), 40u);
  for (const Token token : tokens) EXPECT_TRUE(token == 7 || token == 9) << token;
  RequestParams biased = random_request(20);
  biased.sampler.logit_bias = {{7, kBan}, {8, 100.0f}};
  EXPECT_EQ(generated(biased, {.allowed = {7, 9}}), std::vector<Token>(20, 9));
}

TEST_F(TokenBansOf, SequencesAreBannedAsAWhole) {
  const std::vector<Token> pair = {7, 9}, triple = {9, 9, 9};
  const std::vector<Token> free = generated(random_request(100), {.allowed = {7, 9}});
  EXPECT_GT(occurrences(free, pair), 0);
  EXPECT_GT(occurrences(free, triple), 0);
  const std::vector<Token> tokens =
      generated(random_request(100), {.sequences = {triple, pair}, .allowed = {7, 9}});
  EXPECT_EQ(tokens.size(), 100u);
  EXPECT_EQ(occurrences(tokens, pair), 0);
  EXPECT_EQ(occurrences(tokens, triple), 0);
  EXPECT_EQ(generated(random_request(9), {.sequences = {{7}}, .allowed = {7, 9}}), std::vector<Token>(9, 9));
}

TEST_F(TokenBansOf, WordsAreBannedAloneAndAfterASpace) {
  TokenBans bans;
  bans.add_word("a", tokenizer_);
  EXPECT_EQ(bans.sequences[0], tokenizer_.encode("a", {.add_special = false}));
  EXPECT_EQ(bans.sequences[1], tokenizer_.encode(" a", {.add_special = false}));
  test::expect_error(ErrorCode::kInvalidArgument, "no tokens", [&] { bans.add_word("", tokenizer_); });
  std::string long_word;
  for (int i = 0; i < 2000; ++i) long_word += "ab ";
  test::expect_error(ErrorCode::kInvalidArgument, "the limit is 256",
                     [&] { bans.add_word(long_word, tokenizer_); });
  EXPECT_EQ(bans.sequences.size(), 2u);
}

// vLLM's issue 32557: many words of byte-level BPE have fewer tokens after a space than alone.
TEST_F(TokenBansOf, AWordMayHaveOtherTokensAfterASpace) {
  const auto model = golden("qwen2");
  int n_shorter = 0;
  for (const char* word : {"the", "and", "describe", "exaggerated", "London", "of"}) {
    TokenBans bans;
    bans.add_word(word, model->tokenizer());
    ASSERT_EQ(bans.sequences.size(), 2u);
    EXPECT_EQ(model->tokenizer().decode(bans.sequences[1]), std::string(" ") + word);
    if (bans.sequences[1].size() != bans.sequences[0].size()) ++n_shorter;
  }
  EXPECT_GT(n_shorter, 0);
}

// vLLM's issue 17975: bans hold in each of several completions.
TEST_F(TokenBansOf, EachCompletionIsBanned) {
  RequestParams params = random_request(40);
  params.n = 3;
  ban_tokens(params, {.sequences = {{7, 9}}, .allowed = {7, 9}}, tokenizer_);
  Context context(model_, {.n_ctx = 256, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context);
  std::vector<std::vector<Token>> tokens(3);
  params.on_output = [&](const Output& output) {
    for (const OutputToken& token : output.tokens)
      tokens[static_cast<std::size_t>(output.completion)].push_back(token.id);
    return true;
  };
  batcher.submit({1, 5, 9}, params);
  batcher.run();
  for (const std::vector<Token>& one : tokens) {
    EXPECT_EQ(one.size(), 40u);
    EXPECT_EQ(occurrences(one, {7, 9}), 0);
  }
  EXPECT_NE(tokens[0], tokens[1]);
}

/// Allows everything, and counts.
class Open final : public TokenConstraint {
 public:
  explicit Open(int& n) : n_(n) {}
  void accept(Token) override { ++n_; }
  void fill(std::span<const Token>, std::span<std::uint32_t> allowed) override {
    std::ranges::fill(allowed, ~std::uint32_t{0});
  }
  bool allows(std::span<const Token>, Token) override { return true; }

 private:
  int& n_;
};

TEST_F(TokenBansOf, AnotherConstraintHoldsInAddition) {
  int n_accepted = 0;
  RequestParams params = random_request(30);
  params.sampler.logit_bias = {{9, kBan}};
  params.constraint = [&](int) { return std::make_unique<Open>(n_accepted); };
  const std::vector<Token> tokens = generated(params, {.allowed = {7, 8, 9}});
  EXPECT_EQ(occurrences(tokens, {9}), 0);
  EXPECT_EQ(n_accepted, 30);
}

TEST_F(TokenBansOf, NoTokenLeftIsReported) {
  bool none_left = false;
  RequestParams params = random_request(8);
  ban_tokens(params, {.sequences = {{7, 7}}, .allowed = {7}, .on_none_left = [&] { none_left = true; }},
             tokenizer_);
  Context context(model_, {.n_ctx = 256, .n_threads = 1});
  Batcher batcher(context);
  StopReason stop = StopReason::kEnd;
  params.on_output = [&](const Output& output) {
    if (output.done) stop = output.stop;
    return true;
  };
  batcher.submit({1, 5}, params);
  batcher.run();
  EXPECT_EQ(stop, StopReason::kError);
  EXPECT_TRUE(none_left);
}

TEST_F(TokenBansOf, TokensOutsideOfTheVocabularyAreRefused) {
  RequestParams params;
  const Token beyond = tokenizer_.n_vocab();
  test::expect_error(ErrorCode::kInvalidArgument, "outside the vocabulary",
                     [&] { ban_tokens(params, {.allowed = {beyond}}, tokenizer_); });
  test::expect_error(ErrorCode::kInvalidArgument, "outside the vocabulary",
                     [&] { ban_tokens(params, {.sequences = {{1, -1}}}, tokenizer_); });
  EXPECT_TRUE(params.sampler.logit_bias.empty());
  EXPECT_FALSE(params.constraint);
}

}  // namespace
}  // namespace weft
