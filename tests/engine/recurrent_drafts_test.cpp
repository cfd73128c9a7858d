// Drafts of models with recurrent layers: whichever guess of a draft is wrong, completions have the tokens
// and the bits that they have without drafts.
#include <algorithm>
#include <map>

#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::Ask;
using test::golden;
using test::prompt_of;

/// Tokens and their logprobs.
struct Drawn {
  std::vector<Token> tokens;
  std::vector<float> logprobs;
  CompletionStats stats;
  friend bool operator==(const Drawn& a, const Drawn& b) {
    return a.tokens == b.tokens && a.logprobs == b.logprobs;
  }
};

/// Allows each token, and guesses the tokens of a known completion. One guess of each draft may be wrong.
class Guesses final : public TokenConstraint {
 public:
  static constexpr int kDraft = 5;
  /// Wrong is the guess with this index. kDraft: all guesses are right. kNone: it never guesses.
  /// kSometimes: steps with right guesses, and steps without guesses (vllm-project/vllm#39273).
  static constexpr int kNone = -1, kSometimes = kDraft + 1;
  Guesses(const Model& model, std::vector<Token> truth, int wrong)
      : n_vocab_(model.info().n_vocab), truth_(std::move(truth)), wrong_(wrong) {}
  void accept(Token) override { ++n_; }
  void fill(std::span<const Token>, std::span<std::uint32_t> allowed) override {
    for (Token token = 0; token < n_vocab_; ++token)
      allowed[static_cast<std::size_t>(token) / 32] |= 1u << token % 32;
  }
  bool allows(std::span<const Token>, Token) override { return true; }
  void forced(std::span<const Token> draft, std::vector<Token>& tokens) override {
    if (wrong_ == kNone) return;
    const std::size_t begin = n_ + draft.size();
    if (wrong_ == kSometimes && begin % 4 != 0) return;
    for (std::size_t i = 0; i < kDraft && begin + i < truth_.size(); ++i)
      tokens.push_back(static_cast<int>(i) == wrong_ ? (truth_[begin + i] + 1) % n_vocab_
                                                     : truth_[begin + i]);
  }

 private:
  const int n_vocab_;
  const std::vector<Token> truth_;
  const int wrong_;
  std::size_t n_ = 0;
};

class RecurrentDrafts : public testing::TestWithParam<const char*> {
 protected:
  /// Greedy and sampled requests.
  static std::vector<Ask> asks() {
    std::vector<Ask> asks;
    for (int i = 0; i < 3; ++i) {
      Ask ask{prompt_of(20 + 7 * i, 3 + i), {.n_predict = 24, .ignore_end = true, .n_logprobs = 0}};
      ask.params.sampler = {.seed = static_cast<std::uint64_t>(5 + i), .temperature = i == 0 ? 0.0f : 0.8f};
      asks.push_back(std::move(ask));
    }
    return asks;
  }
  /// What these requests get together. The batcher stays consistent.
  static std::vector<Drawn> serve(Batcher& batcher, std::vector<Ask> asks) {
    std::map<RequestId, Drawn> drawn;
    std::vector<RequestId> ids;
    for (Ask& ask : asks) {
      ask.params.on_output = [&drawn](const Output& output) {
        Drawn& own = drawn[output.request];
        for (const OutputToken& token : output.tokens) {
          own.tokens.push_back(token.id);
          own.logprobs.push_back(token.logprob);
        }
        own.stats = output.stats;
        return true;
      };
      ids.push_back(batcher.submit(ask.prompt, ask.params));
    }
    while (batcher.step()) EXPECT_TRUE(batcher.consistent());
    std::vector<Drawn> result;
    for (const RequestId id : ids) result.push_back(drawn[id]);
    return result;
  }
  static void guess(const Model& model, Ask& ask, std::vector<Token> truth, int wrong) {
    ask.params.constraint = [&model, truth = std::move(truth), wrong](int) {
      return std::make_unique<Guesses>(model, truth, wrong);
    };
  }
};

TEST_P(RecurrentDrafts, ChangeNoBitWhicheverGuessIsWrong) {
  const auto model = golden(GetParam());
  std::vector<Ask> asks = this->asks();
  for (Ask& ask : asks) guess(*model, ask, {}, Guesses::kNone);
  std::vector<Drawn> plain;
  for (const Ask& ask : asks) {  // Each alone, in a context without kept states.
    Context context(model, {.n_ctx = 128, .n_threads = 1});
    Batcher batcher(context);
    plain.push_back(serve(batcher, {ask}).front());
  }
  for (int wrong = 0; wrong <= Guesses::kSometimes; ++wrong) {
    Context context(
        model, {.n_ctx = 512, .n_sequences = 8, .n_threads = 1, .state_rewind = 3 * (1 + Guesses::kDraft)});
    Batcher batcher(context, {.adapt_drafts = false});
    for (const bool with_others : {false, true}) {
      std::vector<Ask> together;
      for (std::size_t i = 0; i < asks.size(); ++i) {
        together.push_back(asks[i]);
        guess(*model, together.back(), plain[i].tokens, wrong);
        together.back().params.speculate = i == 1 || !with_others;
      }
      const std::vector<Drawn> drafted = serve(batcher, together);
      for (std::size_t i = 0; i < asks.size(); ++i) {
        EXPECT_TRUE(drafted[i] == plain[i]) << "guess " << wrong << ", request " << i;
        const CompletionStats& stats = drafted[i].stats;
        EXPECT_EQ(stats.n_drafted > 0, together[i].params.speculate);
        EXPECT_EQ(stats.n_accepted > 0, together[i].params.speculate && wrong > 0);
        if (wrong >= Guesses::kDraft) {
          EXPECT_EQ(stats.n_accepted, stats.n_drafted);
        }
      }
    }
  }
}

// The last prompt token is computed together with a draft. The snapshot of the prompt ends before the draft.
TEST_P(RecurrentDrafts, AreNotPartOfSnapshots) {
  const auto model = golden(GetParam());
  Ask ask = asks().front();
  guess(*model, ask, {}, Guesses::kNone);
  Context context(model, {.n_ctx = 512, .n_sequences = 8, .n_threads = 1, .state_rewind = 12});
  std::vector<Drawn> plain;
  {
    Batcher batcher(context, {.n_snapshots = 0});
    plain = serve(batcher, {ask});
  }
  Batcher batcher(context, {.adapt_drafts = false});
  guess(*model, ask, plain[0].tokens, 2);
  // The prompt without its last token is cached as a whole.
  Ask prefix = ask;
  prefix.prompt.pop_back();
  prefix.params.n_predict = 0;
  prefix.params.constraint = nullptr;
  serve(batcher, {prefix});
  for (int i = 0; i < 3; ++i) {
    const std::vector<Drawn> drafted = serve(batcher, {ask});
    EXPECT_TRUE(drafted == plain) << i;
    EXPECT_GT(drafted[0].stats.n_accepted, 0);
  }
  // What was drawn is a prompt later.
  Ask next = ask;
  next.prompt.insert(next.prompt.end(), plain[0].tokens.begin(), plain[0].tokens.end());
  guess(*model, next, {}, Guesses::kNone);
  const std::vector<Drawn> continued = serve(batcher, {next});
  EXPECT_GT(continued[0].stats.n_cached, 0);
  Context fresh(model, {.n_ctx = 128, .n_threads = 1});
  Batcher alone(fresh);
  EXPECT_TRUE(serve(alone, {next}) == continued);
}

// The tokens repeat themselves, and the context keeps few states: streams share them.
TEST_P(RecurrentDrafts, OfNgramsShareTheStates) {
  const auto model = golden(GetParam());
  std::vector<Ask> asks = this->asks();
  for (Ask& ask : asks) ask.params.sampler.logit_bias = {{17, 6.0f}};  // As in the prompt.
  std::vector<Drawn> plain;
  for (const Ask& ask : asks) {
    Context context(model, {.n_ctx = 128, .n_threads = 1});
    Batcher batcher(context);
    plain.push_back(serve(batcher, {ask}).front());
  }
  // All three decode until the end. A stream needs a state for its last token, and one for a guess.
  for (const int n_states : {0, 1, 5, 6, state_rewind_for(8, 3)}) {
    Context context(model, {.n_ctx = 512, .n_sequences = 8, .n_threads = 1, .state_rewind = n_states});
    Batcher batcher(context, {.speculation = Speculation::kNgram, .adapt_drafts = false});
    EXPECT_TRUE(serve(batcher, asks) == plain) << n_states;
    EXPECT_EQ(batcher.stats().n_drafted_tokens > 0, n_states >= 6 || !model->info().recurrent) << n_states;
  }
}

// Requests that the user cancels, whose context shifts, and that are saved, after drafts of which some are
// wrong.
TEST_P(RecurrentDrafts, LeaveSequencesThatGoOn) {
  const auto model = golden(GetParam());
  const std::vector<Ask> asks = this->asks();
  const ContextParams params = {.n_ctx = 64, .n_sequences = 4, .n_threads = 1, .state_rewind = 9};
  const auto served = [&](const Ask& ask) {
    Context context(model, params);
    Batcher batcher(context, {.adapt_drafts = false});
    return serve(batcher, {ask}).front();
  };
  Ask shifted = asks[1];
  shifted.params.n_predict = 90;
  shifted.params.context_shift = true;
  guess(*model, shifted, {}, Guesses::kNone);
  const Drawn plain = served(shifted);
  guess(*model, shifted, plain.tokens, 2);
  const Drawn drafted = served(shifted);
  EXPECT_TRUE(drafted == plain);
  EXPECT_GT(drafted.stats.n_accepted, 20);

  Ask cancelled = asks[0];
  guess(*model, cancelled, {}, Guesses::kNone);
  guess(*model, cancelled, served(cancelled).tokens, 2);
  std::vector<Token> text = cancelled.prompt;
  cancelled.params.on_output = [&](const Output& output) {
    for (const OutputToken& token : output.tokens) text.push_back(token.id);
    return true;
  };
  Context context(model, params);
  Batcher batcher(context, {.adapt_drafts = false});
  const RequestId id = batcher.submit(cancelled.prompt, cancelled.params);
  while (std::ssize(text) < 30) batcher.step();
  batcher.cancel(id);
  batcher.run();
  EXPECT_TRUE(batcher.consistent());
  EXPECT_GT(batcher.stats().n_drafted_tokens, batcher.stats().n_accepted_tokens);
  const SavedPrefix saved = batcher.save_prefix(text);
  EXPECT_GT(saved.n_tokens, std::ssize(cancelled.prompt));
  Context other(model, params);
  Batcher restored(other);
  EXPECT_EQ(std::ssize(restored.restore_prefix(saved.state).tokens), saved.n_tokens);
  Ask next = asks[2];
  next.prompt = text;
  const Drawn continued = serve(restored, {next}).front();
  EXPECT_EQ(continued.stats.n_cached, saved.n_tokens);
  EXPECT_TRUE(served(next) == continued);
}

INSTANTIATE_TEST_SUITE_P(Families, RecurrentDrafts,
                         testing::Values("mamba", "mamba2", "lfm2", "qwen35", "qwen3next", "granitehybrid",
                                         "falcon-h1", "jamba", "kimi-linear", "nemotron_h", "plamo2", "rwkv6",
                                         "rwkv7"),
                         test::name_of_family);

// Sequences with windows leave snapshots, too.
INSTANTIATE_TEST_SUITE_P(Windows, RecurrentDrafts, testing::Values("gemma3"), test::name_of_family);

}  // namespace
}  // namespace weft
