// Endless sequences with parts that are not tokens, and with their own adapters. Shifts and preemption change
// no bit of them.
#include <algorithm>
#include <random>

#include "engine/adapter_testing.h"
#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::Ask;
using test::Collector;

using Uses = std::vector<AdapterUse>;

constexpr int kMaxText = 90;
constexpr int kKeep = 6;

std::shared_ptr<const Model> adapted_llama() {
  const auto path = test::golden_dir() / "llama" / "model.gguf";
  const gguf::File file = gguf::File::open(path);
  ModelParams params;
  for (std::uint64_t i = 0; i < 2; ++i)
    params.adapters.push_back(
        {test::write_adapter(file, test::random_adapter(file, i, 4), "shifted" + std::to_string(i)),
         std::to_string(i)});
  const auto model = Model::load(path, params);
  for (const AdapterFile& adapter : params.adapters) std::filesystem::remove(adapter.path);
  return model;
}

/// Rows as an encoder might make them, appended to the prompt.
void add_part(Ask& ask, const Model& model, int n, std::int32_t id, bool both_ways) {
  std::mt19937 random(static_cast<unsigned>(id) + 1);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  const int n_embd = model.info().n_embd_input;
  const auto rows =
      std::make_shared<std::vector<float>>(static_cast<std::size_t>(n) * static_cast<std::size_t>(n_embd));
  for (float& value : *rows) value = normal(random);
  const EmbeddedPart part = {.first = static_cast<int>(ask.prompt.size()),
                             .n = n,
                             .rows = {rows, rows->data()},
                             .n_embd = n_embd,
                             .id = id,
                             .both_ways = both_ways};
  ask.prompt.insert(ask.prompt.end(), static_cast<std::size_t>(n), kMediaToken);
  ask.params.parts.push_back(part);
}

/// Prompts that begin alike or with the same part, of which some are forgotten in their midst.
std::vector<Ask> asks(const Model& model) {
  const Uses choices[] = {{}, {{0, 1.0f}}, {{0, 0.5f}, {1, 1.0f}}};
  std::vector<Ask> all;
  for (int i = 0; i < 6; ++i) {
    Ask ask;
    ask.params.sampler.temperature = 0.0f;
    ask.params.n_predict = 150;
    ask.params.ignore_end = ask.params.context_shift = true;
    ask.params.n_ctx = kMaxText;
    ask.params.n_keep = kKeep;
    ask.params.adapters = choices[i % 3];
    ask.prompt = test::prompt_of(3 + i % 2, 1);
    add_part(ask, model, 24, i % 2, i % 2 == 0);
    for (int n = 0; n < 4 * i; ++n) ask.prompt.push_back(40 + n);
    add_part(ask, model, 16, 5 + i, false);
    ask.prompt.push_back(60);
    all.push_back(std::move(ask));
  }
  return all;
}

/// One context, and none of the engine's own ways to bring parts into batches and to forget.
std::vector<Token> shifted_by_hand(const std::shared_ptr<const Model>& model, const Ask& ask) {
  Context context(model, {.n_ctx = 256, .n_threads = 1});
  context.set_adapters(0, *ask.params.adapters);
  Batch batch;
  std::size_t part = 0;
  for (int i = 0; i < static_cast<int>(ask.prompt.size()); ++i) {
    const bool is_last = i + 1 == static_cast<int>(ask.prompt.size());
    if (ask.prompt[static_cast<std::size_t>(i)] >= 0) {
      batch.add(ask.prompt[static_cast<std::size_t>(i)], 0, {.logits = is_last});
      continue;
    }
    while (i >= ask.params.parts[part].first + ask.params.parts[part].n) ++part;
    const EmbeddedPart& p = ask.params.parts[part];
    const auto width = static_cast<std::size_t>(p.n_embd);
    batch.add(std::span(p.rows.get() + static_cast<std::size_t>(i - p.first) * width, width), 0,
              {.logits = is_last, .attend_to = p.both_ways ? p.first + p.n : -1});
  }
  std::vector<Token> tokens;
  while (static_cast<int>(tokens.size()) < ask.params.n_predict) {
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    const std::span<const float> logits = context.logits(batch.size() - 1);
    tokens.push_back(static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    if (context.cache().next_pos(0) == kMaxText) {
      constexpr Pos kMiddle = (kMaxText - kKeep) / 2;
      context.cache().remove(0, kKeep, kKeep + kMiddle);
      EXPECT_TRUE(context.cache().shift(0, kKeep + kMiddle, -1, -kMiddle));
    }
    batch.clear();
    batch.add(tokens.back(), 0, {.logits = true});
  }
  return tokens;
}

TEST(ShiftedParts, AreForgottenInTheMidstOfATextAndItGoesOn) {
  const auto model = adapted_llama();
  const std::vector<Ask> all = asks(*model);
  std::vector<std::vector<Token>> expected;
  for (const Ask& ask : all) expected.push_back(shifted_by_hand(model, ask));
  EXPECT_NE(expected[0], expected[3]);
  // With room for all; with room for two, so that others are set aside, also once they have forgotten.
  for (const int n_ctx : {1024, 250}) {
    Context context(model, {.n_ctx = n_ctx, .n_sequences = 8, .n_ubatch = 32});
    Batcher batcher(context, {.n_running = 6, .speculation = Speculation::kNgram});
    Collector collect;
    std::vector<RequestId> ids;
    for (const Ask& ask : all) {
      ids.push_back(collect.submit(batcher, ask));
      batcher.step();
    }
    while (batcher.step()) ASSERT_TRUE(batcher.consistent());
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(collect(ids[i]).tokens == expected[i]) << i << " with " << n_ctx << " cells";
    EXPECT_TRUE(n_ctx > 250 || batcher.stats().n_preempted > 0);
    EXPECT_EQ(batcher.stats().n_failed_steps, 0);
    EXPECT_EQ(batcher.stats().n_rebuilt, 0);
  }
}

TEST(ShiftedParts, APromptThatIsLongerThanItsTextMayBeIsRefused) {
  const auto model = adapted_llama();
  Context context(model, {.n_ctx = 256});
  Batcher batcher(context);
  Ask ask = asks(*model)[0];
  add_part(ask, *model, kMaxText, 9, false);
  EXPECT_THROW(batcher.submit(ask.prompt, ask.params), Error);
}

TEST(ShiftedParts, GridsCannotBeShifted) {
  const auto model = test::golden("qwen3vl");
  Context context(model, {.n_ctx = 96});
  Batcher batcher(context);
  Ask ask;
  ask.prompt = {2, 5};
  add_part(ask, *model, 12, 1, false);
  ask.prompt.push_back(7);
  ask.params.parts[0].grid_width = 4;
  ask.params.n_predict = 200;
  ask.params.ignore_end = true;
  Collector collect;
  const RequestId id = collect.submit(batcher, ask);
  batcher.run();
  EXPECT_EQ(collect(id).stop, StopReason::kContextFull);
  ask.params.context_shift = true;
  EXPECT_THROW(batcher.submit(ask.prompt, ask.params), Error);
  // A line of rows skips no positions.
  ask.params.parts[0].grid_width = 12;
  const RequestId line = collect.submit(batcher, ask);
  batcher.run();
  EXPECT_EQ(collect(line).stop, StopReason::kLength);

  ask.params.parts[0].grid_width = 4;
  Context alone(model, {.n_ctx = 96});
  Sampler sampler(ask.params.sampler, model->info().n_vocab);
  EXPECT_THROW(
      generate(alone, sampler, ask.prompt,
               {.parts = ask.params.parts, .n_predict = 200, .ignore_end = true, .context_shift = true}),
      Error);
}

}  // namespace
}  // namespace weft
