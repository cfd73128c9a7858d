// Prompts with parts that are not tokens: in a batcher as alone, found again in the cache by their ids.
#include <algorithm>
#include <random>

#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::Ask;
using test::Collector;
using test::Result;

/// Rows as an encoder might make them, of this id.
EmbeddedPart make_part(const Model& model, int n, std::int32_t id, bool both_ways, int grid_width = 0) {
  std::mt19937 random(static_cast<unsigned>(id) + 1);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  const auto rows = std::make_shared<std::vector<float>>(static_cast<std::size_t>(n) *
                                                         static_cast<std::size_t>(model.info().n_embd_input));
  for (float& value : *rows) value = normal(random);
  return {.n = n,
          .rows = {rows, rows->data()},
          .n_embd = model.info().n_embd_input,
          .id = id,
          .both_ways = both_ways,
          .grid_width = grid_width};
}

void add(Ask& ask, EmbeddedPart part) {
  part.first = static_cast<int>(ask.prompt.size());
  ask.prompt.insert(ask.prompt.end(), static_cast<std::size_t>(part.n), kMediaToken);
  ask.params.parts.push_back(std::move(part));
}

void add(Ask& ask, std::initializer_list<Token> tokens) { ask.prompt.insert(ask.prompt.end(), tokens); }

Ask base() {
  Ask ask;
  ask.params.sampler.temperature = 0.0f;
  ask.params.n_predict = 12;
  ask.params.ignore_end = true;
  return ask;
}

/// A context's tokens for the prompt in one batch and its completion, without the engine's own way to put
/// parts into batches.
std::vector<Token> by_hand(const std::shared_ptr<const Model>& model, const Ask& ask) {
  Context context(model, {.n_ctx = 256, .n_threads = 1});
  Batch batch;
  const auto n_embd = static_cast<std::size_t>(model->info().n_embd_input);
  std::size_t part = 0;
  Pos behind = 0;  // The next position of tokens, in models of several axes.
  const auto options_at = [&](bool logits, Pos line, Pos column) {
    ItemOptions options = {.logits = logits};
    if (model->info().axes) options.axes = {behind, behind + line, behind + column};
    return options;
  };
  for (int i = 0; i < static_cast<int>(ask.prompt.size()); ++i) {
    const bool is_last = i + 1 == static_cast<int>(ask.prompt.size());
    if (ask.prompt[static_cast<std::size_t>(i)] >= 0) {
      batch.add(ask.prompt[static_cast<std::size_t>(i)], 0, options_at(is_last, 0, 0));
      ++behind;
      continue;
    }
    while (i >= ask.params.parts[part].first + ask.params.parts[part].n) ++part;
    const EmbeddedPart& p = ask.params.parts[part];
    const int row = i - p.first;
    const int line = p.grid_width > 0 ? row / p.grid_width : 0;
    const int column = p.grid_width > 0 ? row % p.grid_width : 0;
    ItemOptions options = options_at(is_last, line, column);
    if (p.both_ways) options.attend_to = p.first + p.n;
    batch.add(std::span(p.rows.get() + static_cast<std::size_t>(row) * n_embd, n_embd), 0, options);
    if (p.grid_width == 0)
      ++behind;
    else if (row + 1 == p.n)
      behind += std::max(line, column) + 1;
  }
  std::vector<Token> tokens;
  while (static_cast<int>(tokens.size()) < ask.params.n_predict) {
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    const std::span<const float> logits = context.logits(batch.size() - 1);
    tokens.push_back(static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    batch.clear();
    batch.add(tokens.back(), 0, options_at(true, 0, 0));
    ++behind;
  }
  return tokens;
}

struct Kind {
  const char* name;
  const char* model;
  bool both_ways;
  bool grids;
};

class BatcherParts : public testing::TestWithParam<Kind> {
 protected:
  EmbeddedPart part(int n, std::int32_t id, int grid_width) const {
    return make_part(*model, n, id, GetParam().both_ways, GetParam().grids ? grid_width : 0);
  }
  /// A few prompts that share beginnings and parts.
  std::vector<Ask> asks() const {
    std::vector<Ask> all;
    for (int i = 0; i < 8; ++i) {
      Ask ask = base();
      add(ask, {2, 5, 9});
      add(ask, part(9, i % 2, 3));
      add(ask, {17, 21, 30 + i % 4});
      add(ask, part(20, 7 + i % 3, 4));
      for (int n = 0; n < 3 * i; ++n) add(ask, {40 + n});
      add(ask, {60});
      all.push_back(std::move(ask));
    }
    return all;
  }

  const std::shared_ptr<const Model> model = test::golden(GetParam().model);
};

TEST_P(BatcherParts, GenerateReadsThemInAnyPieces) {
  for (const Ask& ask : asks()) {
    const std::vector<Token> expected = by_hand(model, ask);
    for (const int n_chunk : {0, 1, 7}) {
      Context context(model, {.n_ctx = 256, .n_ubatch = 32});
      Sampler sampler(ask.params.sampler, model->info().n_vocab);
      const Generation made = generate(context, sampler, ask.prompt,
                                       {.parts = ask.params.parts,
                                        .n_predict = ask.params.n_predict,
                                        .ignore_end = true,
                                        .n_chunk = n_chunk});
      EXPECT_TRUE(made.tokens == expected) << "pieces of " << n_chunk;
    }
    // As two prompts: the second continues where the first has ended.
    const std::vector<EmbeddedPart>& parts = ask.params.parts;
    const auto split = static_cast<std::size_t>(parts[1].first) - 1;
    Context context(model, {.n_ctx = 256, .n_ubatch = 32});
    Sampler sampler(ask.params.sampler, model->info().n_vocab);
    (void)generate(context, sampler, std::span(ask.prompt).first(split),
                   {.parts = {parts[0]}, .n_predict = 0});
    EmbeddedPart second = parts[1];
    second.first -= static_cast<int>(split);
    const Generation made = generate(context, sampler, std::span(ask.prompt).subspan(split),
                                     {.parts = {second},
                                      .n_skipped = parts[0].n - parts[0].extent(),
                                      .n_predict = ask.params.n_predict,
                                      .ignore_end = true});
    EXPECT_TRUE(made.tokens == expected) << "in two texts";
  }
}

TEST_P(BatcherParts, ResultsAreThoseOfEachRequestAlone) {
  const std::vector<Ask> all = asks();
  // With room for all; with small steps; with a cache for one and a half.
  struct Case {
    int n_ctx, n_ubatch, n_step_tokens;
  };
  for (const auto& [n_ctx, n_ubatch, n_step_tokens] :
       {Case{1024, 64, 0}, Case{1024, 24, 8}, Case{128, 24, 0}}) {
    Context context(model, {.n_ctx = n_ctx, .n_sequences = 12, .n_ubatch = n_ubatch});
    Batcher batcher(context,
                    {.n_running = 8, .n_step_tokens = n_step_tokens, .speculation = Speculation::kNgram});
    Collector collect;
    std::vector<RequestId> ids;
    for (std::size_t i = 0; i < all.size(); ++i) {
      ids.push_back(collect.submit(batcher, all[i]));
      batcher.step();
    }
    batcher.run();
    EXPECT_TRUE(batcher.consistent());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(collect(ids[i]).tokens == by_hand(model, all[i])) << i << " with " << n_ctx << " cells";
      EXPECT_EQ(collect(ids[i]).stop, StopReason::kLength);
    }
    EXPECT_TRUE(n_ctx > 128 || batcher.stats().n_preempted > 0);
  }
}

TEST_P(BatcherParts, DraftsOfOthersInTheSameStepChangeNothing) {
  const Ask ask = asks()[0];
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_ubatch = 64});
  Batcher batcher(context, {.speculation = Speculation::kNgram, .adapt_drafts = false});
  Collector collect;
  Ask other = base();
  add(other, {40, 40, 40, 40, 40, 40});
  other.params.n_predict = 60;
  other.params.sampler.logit_bias = {{40, 1000.0f}};  // It repeats, so it is drafted.
  const RequestId drafting = collect.submit(batcher, other);
  const RequestId with_parts = collect.submit(batcher, ask);
  batcher.run();
  EXPECT_GT(collect(drafting).stats.n_drafted, 0);
  EXPECT_TRUE(collect(with_parts).tokens == by_hand(model, ask));
}

TEST_P(BatcherParts, ContinuedConversationsHitTheCache) {
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_ubatch = 64, .window_rewind = -1});
  Batcher batcher(context);
  Collector collect;
  Ask ask = base();
  add(ask, {2, 5, 9});
  add(ask, part(20, 3, 5));
  add(ask, {17, 21});
  const RequestId first = collect.submit(batcher, ask);
  batcher.run();
  EXPECT_EQ(collect(first).stats.n_cached, 0);

  Ask next = ask;
  for (const Token token : collect(first).tokens) next.prompt.push_back(token);
  add(next, {33, 34});
  Ask other = next;  // Another image in the same place.
  other.params.parts[0] = part(20, 4, 5);
  other.params.parts[0].first = 3;
  std::fill_n(other.prompt.begin() + 3, 20, kMediaToken);
  const RequestId second = collect.submit(batcher, next);
  batcher.run();
  // All but the last drawn token, which was not computed, and the new tokens.
  EXPECT_EQ(collect(second).stats.n_cached, static_cast<int>(next.prompt.size()) - 3);
  EXPECT_TRUE(collect(second).tokens == by_hand(model, next));
  const RequestId third = collect.submit(batcher, other);
  batcher.run();
  EXPECT_EQ(collect(third).stats.n_cached, 3);
  EXPECT_TRUE(collect(third).tokens == by_hand(model, other));
}

TEST_P(BatcherParts, APromptMayEndInOneAndComeAgain) {
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_ubatch = 64, .window_rewind = -1});
  Batcher batcher(context);
  Collector collect;
  for (const int n : {1, 4}) {
    Ask ask = base();
    add(ask, {2, 5});
    add(ask, part(n, n, n));
    for (int turn = 0; turn < 3; ++turn) {
      const RequestId id = collect.submit(batcher, ask);
      batcher.run();
      EXPECT_TRUE(collect(id).tokens == by_hand(model, ask)) << n << " rows, turn " << turn;
    }
  }
  EXPECT_EQ(batcher.stats().n_failed_steps, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BatcherParts,
                         testing::Values(Kind{"InOrder", "gemma3", false, false},
                                         Kind{"BothWays", "gemma3", true, false},
                                         Kind{"Grids", "qwen2vl", false, true},
                                         Kind{"GridsOfDeepRows", "qwen3vl", false, true},
                                         Kind{"LinesOfSeveralAxes", "qwen3vl", false, false}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(BatcherPartsOfOthers, PartsThatFillAStepRunWithOthers) {
  const auto model = test::golden("gemma3");
  Context context(model, {.n_ctx = 1024, .n_sequences = 8, .n_ubatch = 24});
  Batcher batcher(context, {.n_running = 8});
  Collector collect;
  std::vector<Ask> all;
  for (int i = 0; i < 4; ++i) {
    Ask ask = base();
    ask.params.n_predict = 60;
    add(ask, {2, 5 + i});
    all.push_back(ask);
  }
  std::vector<RequestId> ids;
  for (const Ask& ask : all) ids.push_back(collect.submit(batcher, ask));
  for (int i = 0; i < 5; ++i) batcher.step();
  all.push_back(base());
  add(all.back(), {2, 8});
  add(all.back(), make_part(*model, 24, 1, true));
  add(all.back(), {9});
  ids.push_back(collect.submit(batcher, all.back()));
  while (!collect(ids.back()).done) batcher.step();
  EXPECT_FALSE(collect(ids.front()).done) << "it had to wait for others to end";
  batcher.run();
  EXPECT_EQ(batcher.stats().n_failed_steps, 0);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(collect(ids[i]).tokens == by_hand(model, all[i])) << i;
}

TEST(BatcherPartsOfOthers, AForgottenPromptKeepsOthersThatBeginWithItsText) {
  const auto model = test::golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 6, .n_threads = 1});
  Batcher batcher(context);
  Collector collector;
  Ask with = base(), without = base();
  add(with, {1, 5, 9});
  add(with, make_part(*model, 6, 3, false));
  add(with, {8, 4});
  add(without, {1, 5, 9, 12, 30, 7});
  for (const Ask& ask : {with, without}) collector.submit(batcher, ask);
  batcher.run();
  EXPECT_EQ(batcher.stats().sequences_cached, 2);
  EXPECT_EQ(batcher.forget_prefix(with.prompt), 1);
  EXPECT_EQ(batcher.forget_prefix(without.prompt), 1);
}

TEST(BatcherPartsOfOthers, WrongOnesAreRefused) {
  const auto model = test::golden("gemma3");
  Context context(model, {.n_ctx = 256, .n_ubatch = 32});
  Batcher batcher(context);
  Ask good = base();
  add(good, {2, 5});
  add(good, make_part(*model, 9, 3, true));
  add(good, {6});
  const auto refused = [&](const std::function<void(Ask&)>& spoil) {
    Ask ask = good;
    spoil(ask);
    EXPECT_THROW(batcher.submit(ask.prompt, ask.params), Error);
    Sampler sampler(ask.params.sampler, model->info().n_vocab);
    if (ask.params.prompt_logprobs) return;  // generate() has none.
    EXPECT_THROW(generate(context, sampler, ask.prompt, {.parts = ask.params.parts}), Error);
  };
  refused([](Ask& ask) { ask.params.parts.clear(); });
  refused([](Ask& ask) { ask.params.parts[0].first = 1; });
  refused([](Ask& ask) { ask.params.parts[0].first = -1; });
  refused([](Ask& ask) { ask.params.parts[0].n = 8; });
  refused([](Ask& ask) { ask.params.parts[0].n = 0; });
  refused([](Ask& ask) { ask.params.parts[0].n = 1 << 30; });
  refused([](Ask& ask) { ask.params.parts[0].id = -1; });
  refused([](Ask& ask) { ask.params.parts[0].rows = nullptr; });
  refused([](Ask& ask) { ask.params.parts[0].n_embd /= 2; });
  refused([](Ask& ask) { ask.params.parts[0].grid_width = 3; });  // The model has one axis.
  refused([](Ask& ask) { ask.params.parts.push_back(ask.params.parts[0]); });
  refused([&](Ask& ask) {
    add(ask, make_part(*model, 33, 4, true));
    add(ask, {5});
  });
  refused([](Ask& ask) {
    ask.params.prompt_logprobs = true;
    ask.params.n_logprobs = 1;
  });
}

}  // namespace
}  // namespace weft
