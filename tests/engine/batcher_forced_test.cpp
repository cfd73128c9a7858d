// Jumping ahead: what a constraint leaves no choice about is checked in one step, and changes nothing.
#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::Ask;
using test::Collector;
using test::golden;
using test::random_ask;
using test::Result;

/// Texts of stretches: some where anything divisible by three goes, then some that are given.
class Stretches final : public TokenConstraint {
 public:
  enum class Tells : std::uint8_t { kNothing, kTruth, kLies, kNonsense, kThrows };
  Stretches(int n_vocab, Tells tells) : n_vocab_(n_vocab), tells_(tells) {}
  static std::function<std::unique_ptr<TokenConstraint>(int)> make(const Model& model, Tells tells) {
    return
        [n_vocab = model.info().n_vocab, tells](int) { return std::make_unique<Stretches>(n_vocab, tells); };
  }
  void accept(Token token) override {
    EXPECT_TRUE(allows({}, token));
    ++n_;
  }
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    for (Token token = 0; token < n_vocab_; ++token)
      if (allows(draft, token)) allowed[static_cast<std::size_t>(token) / 32] |= 1u << token % 32;
  }
  bool allows(std::span<const Token> draft, Token next) override {
    const Token given = given_at(n_ + static_cast<int>(draft.size()));
    return given >= 0 ? next == given : next % 3 == 0;
  }
  void forced(std::span<const Token> draft, std::vector<Token>& tokens) override {
    if (tells_ == Tells::kThrows) throw 42;
    if (tells_ == Tells::kNothing) return;
    for (int at = n_ + static_cast<int>(draft.size()); given_at(at) >= 0; ++at) {
      if (tells_ == Tells::kNonsense) tokens.push_back(at % 2 == 0 ? -7 : n_vocab_ + 100);
      tokens.push_back(tells_ == Tells::kLies ? (given_at(at) + 1) % n_vocab_ : given_at(at));
    }
  }

 private:
  static constexpr int kPeriod = 16, kFree = 4;
  Token given_at(int at) const { return at % kPeriod < kFree ? -1 : (at * 37 + 11) % n_vocab_; }

  int n_vocab_;
  Tells tells_;
  int n_ = 0;
};
using Tells = Stretches::Tells;

struct ForcedSetting {
  const char* name;
  ContextParams context;
  BatcherParams batcher;
  bool is_plenty = false;
  bool with_draft_model = false;
};

/// Enough for six streams.
constexpr int kStates = 200;

const ForcedSetting kForcedSettings[] = {
    {"no drafter", {.n_ctx = 1024, .n_sequences = 8, .n_threads = 1, .state_rewind = kStates}, {}, true},
    {"always",
     {.n_ctx = 1024, .n_sequences = 8, .n_threads = 1, .state_rewind = kStates},
     {.adapt_drafts = false},
     true},
    {"few outputs",
     {.n_ctx = 1024, .n_sequences = 8, .n_outputs = 9, .n_threads = 1, .state_rewind = kStates},
     {}},
    {"small steps",
     {.n_ctx = 1024, .n_sequences = 8, .n_ubatch = 5, .n_threads = 1, .state_rewind = kStates},
     {}},
    {"a tiny cache",
     {.n_ctx = 192, .n_sequences = 8, .n_threads = 1, .state_rewind = kStates},
     {.adapt_drafts = false}},
    {"windows only",
     {.n_ctx = 1024, .n_sequences = 8, .n_threads = 1, .window_rewind = 0, .state_rewind = kStates},
     {},
     true},
    {"drafts from the text",
     {.n_ctx = 1024, .n_sequences = 16, .n_threads = 1, .state_rewind = kStates},
     {.n_running = 4, .speculation = Speculation::kNgram, .adapt_drafts = false}},
    {"a draft model",
     {.n_ctx = 1024, .n_sequences = 16, .n_threads = 1, .state_rewind = kStates},
     {.n_running = 4, .speculation = Speculation::kModel, .n_draft = 4, .adapt_drafts = false},
     false,
     true},
    {"few states", {.n_ctx = 1024, .n_sequences = 8, .n_threads = 1, .state_rewind = 30}, {}},
};

struct ForcedServed {
  std::vector<Result> results;
  BatcherStats stats;
};

ForcedServed serve(const std::shared_ptr<const Model>& model, const ForcedSetting& setting,
                   const std::vector<Ask>& asks) {
  Context context(model, setting.context);
  const auto draft = std::make_shared<Context>(model, setting.context);
  BatcherParams params = setting.batcher;
  if (setting.with_draft_model) params.draft = draft;
  Batcher batcher(context, params);
  Collector collector;
  std::vector<RequestId> ids;
  for (const Ask& ask : asks) ids.push_back(collector.submit(batcher, ask));
  while (batcher.step()) EXPECT_TRUE(batcher.consistent()) << setting.name;
  ForcedServed served;
  for (const RequestId id : ids) served.results.push_back(collector(id));
  served.stats = batcher.stats();
  return served;
}

std::vector<Ask> asks_that_tell(const Model& model, Tells tells) {
  std::mt19937_64 random(21);
  std::vector<Ask> asks;
  for (int i = 0; i < 6; ++i) {
    asks.push_back(random_ask(model, random, 30));
    if (i % 3 == 2) continue;  // A free one among them.
    asks.back().params.n_predict = 50;
    asks.back().params.ignore_end = true;
    asks.back().params.n_logprobs = i == 0 ? 2 : -1;
    asks.back().params.constraint = Stretches::make(model, tells);
  }
  return asks;
}

class ForcedTokens : public testing::TestWithParam<const char*> {};

TEST_P(ForcedTokens, ChangeNoTextAndSaveSteps) {
  const auto model = golden(GetParam());
  const ForcedServed plain = serve(model, kForcedSettings[0], asks_that_tell(*model, Tells::kNothing));
  EXPECT_EQ(plain.stats.n_drafted_tokens, 0);
  for (const ForcedSetting& setting : kForcedSettings) {
    for (const Tells tells : {Tells::kTruth, Tells::kLies, Tells::kNonsense, Tells::kThrows}) {
      const ForcedServed served = serve(model, setting, asks_that_tell(*model, tells));
      for (std::size_t i = 0; i < plain.results.size(); ++i)
        EXPECT_TRUE(served.results[i] == plain.results[i]) << setting.name << ", request " << i;
      if (setting.batcher.speculation != Speculation::kNone) continue;
      if (tells != Tells::kTruth) {
        EXPECT_EQ(served.stats.n_accepted_tokens, 0) << setting.name;
      } else {
        EXPECT_GT(served.stats.n_accepted_tokens, 50) << setting.name;
        if (setting.is_plenty) {
          EXPECT_LT(served.stats.n_steps, plain.stats.n_steps / 2) << setting.name;
        }
        EXPECT_EQ(served.results[0].stats.n_accepted, served.results[0].stats.n_drafted) << setting.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ForcedTokens, testing::Values("llama", "gemma3", "qwen3moe", "lfm2"),
                         [](const auto& tested) { return std::string(tested.param); });

/// Drafts continue after forced tokens.
TEST(Forced, DrafterContinuesAfterThem) {
  const auto model = golden("llama");
  std::vector<Ask> asks = asks_that_tell(*model, Tells::kTruth);
  asks.resize(1);
  const std::int64_t n_alone = serve(model, kForcedSettings[1], asks).stats.n_steps;
  const std::int64_t n_behind = serve(model, kForcedSettings[7], asks).stats.n_steps;
  for (Ask& ask : asks) ask.params.constraint = Stretches::make(*model, Tells::kNothing);
  const std::int64_t n_drafter = serve(model, kForcedSettings[7], asks).stats.n_steps;
  EXPECT_LT(n_behind, n_drafter);
  EXPECT_LE(n_behind, n_alone);
}

/// A fully forced sequence takes as many steps as it has stretches of a step's maximum.
TEST(Forced, AreBoundedByAStepAndByTheEnd) {
  const auto model = golden("llama");
  class Known final : public TokenConstraint {
   public:
    explicit Known(Token end) : end_(end) {}
    void accept(Token) override { ++n_; }
    void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
      const auto next = static_cast<std::size_t>(at(n_ + static_cast<int>(draft.size())));
      allowed[next / 32] |= 1u << next % 32;
    }
    bool allows(std::span<const Token> draft, Token next) override {
      return next == at(n_ + static_cast<int>(draft.size()));
    }
    void forced(std::span<const Token>, std::vector<Token>& tokens) override {
      for (int i = n_; i < n_ + 1000; ++i) tokens.push_back(at(i));
    }

   private:
    Token at(int i) const { return i == 100 ? end_ : 10 + i % 50; }
    Token end_;
    int n_ = 0;
  };
  for (const int n_predict : {-1, 40}) {
    Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1});
    Batcher batcher(context);
    Collector collector;
    Ask ask{{1, 2, 3}, {.n_predict = n_predict}};
    ask.params.constraint = [&](int) {
      return std::make_unique<Known>(model->tokenizer().end_tokens().front());
    };
    const RequestId id = collector.submit(batcher, ask);
    while (batcher.step()) ASSERT_TRUE(batcher.consistent());
    EXPECT_EQ(collector(id).stop, n_predict < 0 ? StopReason::kEnd : StopReason::kLength);
    EXPECT_EQ(collector(id).tokens.size(), n_predict < 0 ? 101u : 40u);
    // The first token comes with the prompt, then up to 33 a step.
    EXPECT_EQ(batcher.stats().n_steps, n_predict < 0 ? 5 : 3);
    EXPECT_EQ(batcher.stats().n_accepted_tokens, batcher.stats().n_drafted_tokens);
  }
  // A request without speculation gets no drafts.
  Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1});
  Batcher batcher(context);
  Collector collector;
  Ask ask{{1, 2, 3}, {.n_predict = 40, .speculate = false}};
  ask.params.constraint = [&](int) {
    return std::make_unique<Known>(model->tokenizer().end_tokens().front());
  };
  collector.submit(batcher, ask);
  batcher.run();
  EXPECT_EQ(batcher.stats().n_drafted_tokens, 0);
}

}  // namespace
}  // namespace weft
