// Completions that may write certain tokens only (TokenConstraint), with drafts and without.
#include <algorithm>

#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::alone;
using test::Ask;
using test::Collector;
using test::expect_same;
using test::golden;
using test::random_ask;

/// Allows multiples of `step` only.
class Multiples final : public TokenConstraint {
 public:
  Multiples(int n_vocab, int step) : n_vocab_(n_vocab), step_(step) {}
  void accept(Token token) override { EXPECT_TRUE(allows({}, token)); }
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    for (const Token token : draft) EXPECT_TRUE(allows({}, token));
    for (Token token = 0; token < n_vocab_; token += step_)
      allowed[static_cast<std::size_t>(token) / 32] |= 1u << token % 32;
  }
  bool allows(std::span<const Token>, Token next) override { return next % step_ == 0; }

 private:
  int n_vocab_, step_;
};

TEST(BatcherConstraints, OnlyAllowedTokensAreWrittenWithDraftsAndWithout) {
  const auto model = golden("llama");
  std::vector<std::vector<Token>> texts;
  for (const auto speculation : {Speculation::kNone, Speculation::kNgram, Speculation::kModel}) {
    Context context(model, {.n_ctx = 1024, .n_sequences = 12, .n_threads = 1});
    const auto draft =
        std::make_shared<Context>(model, ContextParams{.n_ctx = 1024, .n_sequences = 12, .n_threads = 1});
    Batcher batcher(context, {.n_running = 4,
                              .speculation = speculation,
                              .n_draft = 6,
                              .adapt_drafts = false,
                              .draft = speculation == Speculation::kModel ? draft : nullptr});
    Collector collector;
    std::vector<RequestId> ids;
    for (int i = 0; i < 6; ++i) {
      Ask ask{{3, 6, 3, 6, static_cast<Token>(i)}, {.n_predict = 40, .ignore_end = true}};
      ask.params.sampler.temperature = i % 2 == 0 ? 0.0f : 1.0f;
      ask.params.sampler.seed = static_cast<std::uint64_t>(i);
      if (i < 4)
        ask.params.constraint = [&](int) { return std::make_unique<Multiples>(model->info().n_vocab, 3); };
      ids.push_back(collector.submit(batcher, ask));
    }
    while (batcher.step()) ASSERT_TRUE(batcher.consistent());
    for (int i = 0; i < 6; ++i) {
      const auto& tokens = collector(ids[static_cast<std::size_t>(i)]).tokens;
      EXPECT_EQ(tokens.size(), 40u);
      EXPECT_TRUE(i >= 4 || std::all_of(tokens.begin(), tokens.end(), [](Token t) { return t % 3 == 0; }));
      if (speculation == Speculation::kNone) {
        texts.push_back(tokens);
      } else {
        EXPECT_EQ(tokens, texts[static_cast<std::size_t>(i)]) << "a draft changes nothing";
      }
    }
  }
}

class Broken final : public TokenConstraint {
 public:
  explicit Broken(int fails_at) : left_(fails_at) {}
  void accept(Token) override {}
  void fill(std::span<const Token>, std::span<std::uint32_t> allowed) override {
    if (--left_ < 0) throw Error(ErrorCode::kInvalidArgument, "the grammar is broken");
    std::fill(allowed.begin(), allowed.end(), ~std::uint32_t{0});
  }
  bool allows(std::span<const Token>, Token) override { return true; }

 private:
  int left_;
};

/// What users' code throws need not be an exception of the standard library.
class Odd final : public TokenConstraint {
 public:
  explicit Odd(int where) : where_(where) {}
  void accept(Token) override {
    if (where_ == 0 && ++n_ == 3) throw 42;
  }
  void fill(std::span<const Token>, std::span<std::uint32_t> allowed) override {
    if (where_ == 1 && ++n_ == 3) throw 42;
    std::fill(allowed.begin(), allowed.end(), ~std::uint32_t{0});
  }
  bool allows(std::span<const Token>, Token) override {
    if (where_ == 2) throw 42;
    return true;
  }

 private:
  int where_, n_ = 0;
};

TEST(BatcherConstraints, ExceptionsEndOnlyTheirCompletion) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 8, .n_threads = 1});
  Batcher batcher(context, {.n_running = 5, .speculation = Speculation::kNgram, .adapt_drafts = false});
  Collector collector;
  std::mt19937_64 random(1);
  const Ask other = random_ask(*model, random);
  std::vector<RequestId> odd;
  const RequestId id = collector.submit(batcher, other);
  for (int where = 0; where < 4; ++where) {
    Ask ask{{3, 6, 3, 6, 3, 6}, {.n_predict = 200, .ignore_end = true}};
    ask.params.sampler.temperature = 0.0f;  // It repeats itself in the end, and is drafted.
    ask.params.constraint = [where](int) -> std::unique_ptr<TokenConstraint> {
      if (where == 3) throw 42;
      return std::make_unique<Odd>(where);
    };
    odd.push_back(collector.submit(batcher, ask));
  }
  while (batcher.step()) ASSERT_TRUE(batcher.consistent());
  // What allows() throws costs the guesses only.
  for (std::size_t i = 0; i < odd.size(); ++i)
    EXPECT_EQ(collector(odd[i]).stop, i == 2 ? StopReason::kLength : StopReason::kError) << i;
  expect_same(collector(id), alone(model, other), "the other one");
  EXPECT_EQ(batcher.stats().n_rebuilt, 0);
}

/// A grammar does not check draft tokens after an end token.
class EndsAtEnd final : public TokenConstraint {
 public:
  explicit EndsAtEnd(const Model& model) : model_(model) {}
  void accept(Token) override {}
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    check(draft);
    std::fill(allowed.begin(), allowed.end(), ~std::uint32_t{0});
  }
  bool allows(std::span<const Token> draft, Token) override {
    check(draft);
    return true;
  }

 private:
  void check(std::span<const Token> draft) const {
    for (const Token token : draft)
      if (model_.tokenizer().is_end(token)) throw Error(ErrorCode::kInvalidArgument, "the text is over");
  }
  const Model& model_;
};

TEST(BatcherConstraints, AreNotCalledAfterTheEnd) {
  const auto model = golden("llama");
  Token end = 0;
  while (!model->tokenizer().is_end(end)) ++end;
  Context context(model, {.n_ctx = 512, .n_sequences = 8, .n_threads = 1});
  Batcher batcher(context, {.n_running = 2, .speculation = Speculation::kNgram, .adapt_drafts = false});
  Collector collector;
  Ask ask{{}, {.n_predict = 30}};
  for (int i = 0; i < 6; ++i)
    for (const Token token : {Token{7}, Token{8}, end, Token{9}, Token{10}}) ask.prompt.push_back(token);
  ask.prompt.insert(ask.prompt.end(), {7, 8});
  ask.params.constraint = [&](int) { return std::make_unique<EndsAtEnd>(*model); };
  const RequestId id = collector.submit(batcher, ask);
  batcher.run();
  EXPECT_NE(collector(id).stop, StopReason::kError);
}

TEST(BatcherConstraints, OneThatFailsEndsItsCompletionAlone) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context);
  Collector collector;
  std::mt19937_64 random(1);
  Ask ask = random_ask(*model, random), other = random_ask(*model, random);
  ask.params.n_predict = 20;
  ask.params.ignore_end = true;
  ask.params.constraint = [](int) { return std::make_unique<Broken>(3); };
  const RequestId broken = collector.submit(batcher, ask);
  ask.params.constraint = [](int) -> std::unique_ptr<TokenConstraint> {
    throw Error(ErrorCode::kInvalidArgument, "there is no such grammar");
  };
  const RequestId unmade = collector.submit(batcher, ask);
  const RequestId id = collector.submit(batcher, other);
  batcher.run();
  EXPECT_EQ(collector(broken).stop, StopReason::kError);
  EXPECT_EQ(collector(broken).tokens.size(), 3u);
  EXPECT_EQ(collector(unmade).stop, StopReason::kError);
  expect_same(collector(id), alone(model, other), "the other one");
}

}  // namespace
}  // namespace weft
