// Snapshots at the ends of prompts and where prompts are likely to diverge, for models whose sequences cannot
// be cut anywhere.
#include <algorithm>

#include "engine/batcher_testing.h"

namespace weft {
namespace {

using namespace weft::test;

struct Uncut {
  const char* family;
  int window_rewind;
};

class PromptSnapshots : public testing::TestWithParam<Uncut> {
 protected:
  /// Tokens of the vocabulary's start, which all families have.
  static std::vector<Token> tokens(std::size_t n, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Token> result;
    while (result.size() < n) result.push_back(static_cast<Token>(5 + random() % 55));
    return result;
  }
  static std::vector<Token> join(std::vector<Token> a, const std::vector<Token>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  static Ask ask(std::vector<Token> prompt, int n_predict, std::vector<int> snapshot_at = {}) {
    Ask result{std::move(prompt), {.n_predict = n_predict, .ignore_end = true}};
    result.params.sampler.temperature = 0.0f;
    result.params.snapshot_at = std::move(snapshot_at);
    return result;
  }
  /// The tokens of the prompt that were found in the cache. The request has the same tokens alone.
  int n_cached(Batcher& batcher, const Ask& ask) const {
    Collector collector;
    const RequestId id = collector.submit(batcher, ask);
    batcher.run();
    EXPECT_TRUE(batcher.consistent());
    expect_same(collector(id), alone(model, ask), "a request");
    return collector(id).stats.n_cached;
  }
  /// Whether n tokens were found where a snapshot has `expected`. Windows may have a few more tokens in their
  /// last page.
  testing::AssertionResult found(int n, int expected) const {
    if (n == expected || (!model->info().recurrent && n >= expected && n < expected + 64))
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << n << " tokens were found, not " << expected;
  }

  const std::shared_ptr<const Model> model = golden(GetParam().family);
  const ContextParams params{.n_ctx = 4096, .n_sequences = 12, .window_rewind = GetParam().window_rewind};
};

TEST_P(PromptSnapshots, ATurnContinuesAtTheEndOfTheLastPrompt) {
  // The next prompt has no token of the response, as if all of it had been reasoning.
  Context context(model, params);
  ASSERT_FALSE(context.cache().cuts_anywhere());
  Batcher batcher(context);
  std::vector<Token> history = tokens(300, 1);
  for (const int expected : {0, 300, 372, 444}) {
    EXPECT_EQ(n_cached(batcher, ask(history, 60)), expected);
    history = join(history, tokens(72, 2u + history.size()));
  }
  EXPECT_EQ(batcher.stats().n_prompt_tokens, 300 + 3 * 72);
}

TEST_P(PromptSnapshots, AnEditedMessageContinuesWhereItBegins) {
  Context context(model, params);
  Batcher batcher(context);
  const std::vector<Token> before = tokens(130, 1);
  EXPECT_EQ(n_cached(batcher, ask(join(before, tokens(40, 2)), 60, {130})), 0);
  EXPECT_EQ(n_cached(batcher, ask(join(before, tokens(50, 3)), 60, {130})), 130);
  // The same prompt again: its last token is always computed.
  EXPECT_TRUE(found(n_cached(batcher, ask(join(before, tokens(50, 3)), 60, {130})), 130));
}

TEST_P(PromptSnapshots, UsersOfOneSystemPromptShareItFromTheSecondRequestOn) {
  Context context(model, params);
  Batcher batcher(context);
  const std::vector<Token> system = tokens(200, 1);
  for (std::uint64_t user = 0; user < 6; ++user)
    EXPECT_EQ(n_cached(batcher, ask(join(system, tokens(30, 10 + user)), 4, {200})), user == 0 ? 0 : 200);
}

TEST_P(PromptSnapshots, SeveralLengthsOfAPromptAreKept) {
  Context context(model, params);
  Batcher batcher(context);
  const std::vector<Token> text = tokens(400, 1);
  // Lengths in any order; those outside of the prompt have no effect.
  EXPECT_EQ(n_cached(batcher, ask(text, 3, {350, -1, 100, 0, 250, 400, 5000})), 0);
  for (const int n : {350, 250, 100}) {
    const std::vector<Token> begin(text.begin(), text.begin() + n + 8);
    EXPECT_TRUE(found(n_cached(batcher, ask(join(begin, tokens(90, 9)), 3)), n));
  }
}

TEST_P(PromptSnapshots, ShortPromptsAreKeptIfTheySaveWork) {
  Context context(model, params);
  Batcher batcher(context);
  EXPECT_EQ(n_cached(batcher, ask(tokens(10, 1), 60)), 0);
  EXPECT_EQ(batcher.stats().n_snapshots, 0);
  EXPECT_EQ(n_cached(batcher, ask(tokens(30, 2), 60)), 0);
  EXPECT_EQ(batcher.stats().n_snapshots, 1);
  EXPECT_EQ(n_cached(batcher, ask(join(tokens(30, 2), tokens(20, 3)), 60)), 30);
}

TEST_P(PromptSnapshots, TheirNumberAndBytesAreBounded) {
  struct Bounds {
    int n;
    std::int64_t n_in_bytes;
    int expected;
  };
  for (const Bounds& bounds :
       {Bounds{3, 100, 3}, Bounds{32, 2, 2}, Bounds{32, 100, 6}, Bounds{0, 100, 0}, Bounds{32, 0, 0}}) {
    Context context(model, params);
    const std::int64_t each = context.cache().snapshot_bytes();
    ASSERT_GT(each, 0);
    Batcher batcher(context, {.n_snapshots = bounds.n, .snapshot_bytes = bounds.n_in_bytes * each});
    for (std::uint64_t i = 0; i < 9; ++i) {
      EXPECT_EQ(n_cached(batcher, ask(tokens(90, i), 3, {70})), 0);
      EXPECT_LE(batcher.stats().snapshots_cached, bounds.expected);
    }
    EXPECT_EQ(batcher.stats().snapshots_cached, bounds.expected);
    EXPECT_EQ(batcher.stats().n_snapshots > 0, bounds.expected > 0);
  }
}

TEST_P(PromptSnapshots, OldOnesGiveWay) {
  Context context(model, params);
  Batcher batcher(context, {.n_snapshots = 3});
  const std::vector<Token> first = tokens(90, 1);
  EXPECT_EQ(n_cached(batcher, ask(first, 60)), 0);
  // A snapshot that is used stays, and the other one goes.
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(n_cached(batcher, ask(tokens(90, 10 + i), 60)), 0);
    EXPECT_EQ(n_cached(batcher, ask(join(first, tokens(9, 20 + i)), 1)), 90);
  }
}

TEST_P(PromptSnapshots, AnAgentsLoopKeepsWhereItsTurnBegan) {
  Context context(model, params);
  Batcher batcher(context, {.n_snapshots = 3});
  const std::vector<Token> turn = tokens(130, 1);
  std::vector<Token> history = join(turn, tokens(20, 2));
  for (std::uint64_t call = 0; call < 8; ++call) {
    Collector collector;
    const RequestId id = collector.submit(batcher, ask(history, 5, {130}));
    batcher.run();
    EXPECT_EQ(collector(id).stats.n_cached, call == 0 ? 0 : static_cast<int>(history.size()) - 31);
    history = join(join(history, collector(id).tokens), tokens(30, 10 + call));
  }
  // The next message of the user: the template drops the reasoning of the loop.
  EXPECT_EQ(n_cached(batcher, ask(join(turn, tokens(60, 3)), 5, {130})), 130);
}

TEST_P(PromptSnapshots, ALongConversationReplacesItsOwn) {
  ContextParams large = params;
  large.n_sequences = 32;
  Context context(model, large);
  Batcher batcher(context, {.n_snapshots = 4});
  const std::vector<Token> other = tokens(90, 1);
  EXPECT_EQ(n_cached(batcher, ask(other, 60)), 0);
  std::vector<Token> history = tokens(90, 2);
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(n_cached(batcher, ask(history, 3)), i == 0 ? 0 : 70 + 20 * static_cast<int>(i));
    history = join(history, tokens(20, 10 + i));
  }
  EXPECT_EQ(n_cached(batcher, ask(join(other, tokens(30, 3)), 3)), 90);
}

TEST_P(PromptSnapshots, APromptThatEndsAtOneComputesItsLastToken) {
  Context context(model, params);
  Batcher batcher(context);
  EXPECT_EQ(n_cached(batcher, ask(join(tokens(130, 1), tokens(20, 2)), 60, {130})), 0);
  EXPECT_LT(n_cached(batcher, ask(tokens(130, 1), 10)), 130);
}

TEST_P(PromptSnapshots, ThoseThatHoldAllCellsAreEvictedForARequest) {
  ContextParams small = params;
  small.n_ctx = 512;
  Context context(model, small);
  Batcher batcher(context);
  for (std::uint64_t i = 0; i < 6; ++i) EXPECT_EQ(n_cached(batcher, ask(tokens(300, i), 60, {100, 200})), 0);
  EXPECT_EQ(batcher.stats().n_preempted, 0);
  EXPECT_EQ(batcher.stats().n_recomputed_tokens, 0);
}

TEST_P(PromptSnapshots, RequestsTogetherHaveTheTokensOfEachAlone) {
  // More requests than fit, some cancelled: snapshots and preemptions change no token.
  ContextParams small = params;
  small.n_ctx = 640;
  Context context(model, small);
  Batcher batcher(context, {.n_running = 6});
  std::vector<Ask> asks;
  for (std::uint64_t i = 0; i < 12; ++i)
    asks.push_back(ask(join(tokens(80 + 40 * (i % 3), i % 2), tokens(20 + i, 50 + i)), 40,
                       {static_cast<int>(80 + 40 * (i % 3)), 70}));
  std::vector<Result> references;
  for (const Ask& one : asks) references.push_back(alone(model, one));
  std::mt19937_64 random(3);
  Collector collector;
  std::map<RequestId, std::size_t> open;
  for (int i = 0; i < 80; ++i) {
    const std::size_t which = random() % asks.size();
    open[collector.submit(batcher, asks[which])] = which;
    if (random() % 4 == 0) batcher.cancel(open.begin()->first);
    for (std::uint64_t n = random() % 6; n > 0; --n) batcher.step();
    ASSERT_TRUE(batcher.consistent());
  }
  while (batcher.step()) ASSERT_TRUE(batcher.consistent());
  for (const auto& [id, which] : open)
    if (collector(id).stop != StopReason::kCancelled)
      expect_same(collector(id), references[which], "one of many");
  EXPECT_GT(batcher.stats().n_snapshots, 20);
  EXPECT_GT(batcher.stats().n_preempted, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, PromptSnapshots,
                         testing::Values(Uncut{"lfm2", 256}, Uncut{"qwen35", 256}, Uncut{"gemma4", 0}),
                         [](const auto& tested) { return std::string(tested.param.family); });

TEST(PromptSnapshotsOfOthers, DraftedTokensAreNotInThem) {
  // The prompt repeats itself, so the step of its end verifies a draft.
  const auto model = golden("gemma3");
  Context context(model, {.n_ctx = 1024, .n_sequences = 6});
  ASSERT_FALSE(context.cache().cuts_anywhere());
  Batcher batcher(context, {.speculation = Speculation::kNgram, .n_draft = 6, .adapt_drafts = false});
  Collector collector;
  Ask ask{{}, {.n_predict = 8, .ignore_end = true}};
  for (int i = 0; i < 90; ++i) ask.prompt.push_back(static_cast<Token>(5 + i % 9));
  ask.params.sampler.temperature = 0.0f;
  for (int turn = 0; turn < 3; ++turn) {
    const RequestId id = collector.submit(batcher, ask);
    while (batcher.step()) ASSERT_TRUE(batcher.consistent());
    EXPECT_GT(collector(id).stats.n_drafted, 0);
    expect_same(collector(id), alone(model, ask), "turn " + std::to_string(turn));
    ask.prompt.push_back(static_cast<Token>(90 + turn));
  }
}

TEST(PromptSnapshotsOfOthers, ModelsThatCutAnywhereNeedNone) {
  Context context(golden("llama"), {.n_ctx = 1024, .n_sequences = 4});
  EXPECT_EQ(context.cache().snapshot_bytes(), 0);
  Batcher batcher(context);
  Collector collector;
  Ask ask{std::vector<Token>(200, 17), {.n_predict = 3}};
  ask.params.snapshot_at = {100};
  collector.submit(batcher, ask);
  batcher.run();
  EXPECT_EQ(batcher.stats().n_snapshots, 0);
}

}  // namespace
}  // namespace weft
