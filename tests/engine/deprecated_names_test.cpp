// Deprecated names compile and do what the new ones do (docs/migration.md). Delete it with them.
#include <type_traits>

#include "engine/test_support.h"
#include "weft/chat.h"
#include "weft/plan.h"
#include "weft/service.h"
#include "weft/text_state.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace weft {
namespace {

static_assert(std::is_same_v<Chunk, Output>);
static_assert(Response::Poll::kChunk == Response::Poll::kOutput);
static_assert(std::is_same_v<SavedText, SavedPrefix> && std::is_same_v<RestoredText, RestoredPrefix>);
static_assert(std::is_same_v<BatcherPicture, BatcherSnapshot> && std::is_same_v<TextState, PrefixState>);
static_assert(std::is_same_v<AnswerEvent, ResponseEvent> && std::is_same_v<AnswerReader, ResponseReader>);
static_assert(std::is_same_v<ChatAnswer, ChatResponse>);
static_assert(Batch::kNextPos == kNextPos && Context::kCellsOfPage == KvCache::kCellsOfPage);

TEST(DeprecatedNames, OfBatchesSetTheOptions) {
  Batch batch;
  batch.add(5, 0, true);
  batch.add(6, 1, false, 3);
  batch.add(7, {2, 3}, true, 4);
  batch.add({8, 9}, 4, true);
  batch.add(std::vector<float>(4), 5, false, 2);
  EXPECT_TRUE(batch.options(0).logits);
  EXPECT_EQ(batch.options(1).pos, 3);
  EXPECT_EQ(batch.options(2).pos, 4);
  EXPECT_EQ(batch.shared_with(2).size(), 1u);
  EXPECT_FALSE(batch.options(3).logits);
  EXPECT_TRUE(batch.options(4).logits);
  EXPECT_EQ(batch.options(5).pos, 2);
  batch.only_best(0, 4);
  batch.want_log_sum_exp(0, 11);
  batch.want_embedding(1);
  batch.see_to(1, 7);
  batch.stand_at(1, {1, 2, 3});
  EXPECT_EQ(batch.options(0).n_best, 4);
  EXPECT_TRUE(batch.options(0).log_sum_exp);
  EXPECT_EQ(batch.options(0).logit_of, 11);
  EXPECT_TRUE(batch.options(1).embedding);
  EXPECT_EQ(batch.options(1).attend_to, 7);
  EXPECT_EQ(batch.options(1).axes, (AxisPositions{1, 2, 3}));
}

TEST(DeprecatedNames, OfContextsAndBatchersOperateOnTheCache) {
  const std::shared_ptr<const Model> model = Model::load(test::golden_dir() / "llama" / "model.gguf");
  Context context(model, {.n_ctx = 128, .n_sequences = 4, .n_threads = 1});
  const KvCache& cache = context.cache();
  Batch batch;
  batch.add({5, 6, 7, 8, 9, 10}, 0, true);
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  ASSERT_TRUE(context.copy(0, 1));
  EXPECT_EQ(cache.next_pos(1), 6);
  context.remove(1, 4);
  EXPECT_EQ(context.next_pos(1), 4);
  ASSERT_TRUE(context.shift(1, 0, -1, 3));
  EXPECT_EQ(context.min_pos(1), 3);
  ASSERT_TRUE(context.divide(1, 0, -1, 3));
  EXPECT_EQ(cache.min_pos(1), 1);
  ASSERT_TRUE(context.forget(0, 1, 2));
  EXPECT_EQ(cache.next_pos(0), 4);
  context.keep(0);
  EXPECT_EQ(cache.next_pos(1), 0);
  context.defragment();
  EXPECT_EQ(context.can_cut(0, 2), cache.can_cut(0, 2));
  EXPECT_EQ(context.cuts_anywhere(), cache.cuts_anywhere());
  EXPECT_EQ(context.cuts_back(), cache.cuts_back());
  EXPECT_EQ(context.can_shift(), cache.can_shift());
  EXPECT_EQ(context.why_not_forget(), cache.why_not_forget());
  EXPECT_EQ(context.max_positions(), cache.max_positions());
  EXPECT_TRUE(context.intact() && context.intact(0) && context.consistent());
  EXPECT_EQ(context.cells_used(), cache.cells_used());
  EXPECT_EQ(context.cells_total(), cache.cells_total());
  EXPECT_EQ(context.why_full(3), cache.why_full(3));
  EXPECT_EQ(context.cell_runs(), cache.cell_runs());
  EXPECT_EQ(context.n_pages(), cache.n_pages());
  EXPECT_EQ(context.cache_bytes(), cache.bytes());
  context.clear();
  EXPECT_EQ(cache.cells_used(), 0);

  Batcher batcher(context);
  const std::vector<Token> prompt = {5, 6, 7, 8};
  batcher.submit(prompt, {.n_predict = 2});
  batcher.run();
  const SavedText saved = batcher.save_text(prompt);
  EXPECT_EQ(saved.n_tokens, 4);
  EXPECT_EQ(read_text_state(saved.state).tokens, prompt);
  const TextState state = read_text_state(saved.state);
  EXPECT_EQ(write_text_state(state.tokens, state.state), saved.state);
  EXPECT_EQ(batcher.forget_text(prompt), 1);
  EXPECT_EQ(batcher.restore_text(saved.state).tokens, prompt);
  EXPECT_EQ(batcher.picture().sequences.size(), 1u);
}

TEST(DeprecatedNames, OfDevicesAndEnumerationsAreTheNewFunctions) {
  EXPECT_EQ(devices()[0].name, list_devices()[0].name);
  EXPECT_EQ(devices(*find_backends())[0].name, "cpu");
  EXPECT_EQ(find_devices("cpu").infos().size(), 1u);
  EXPECT_EQ(find_devices({"cpu", "second=cpu"}).infos().size(), 2u);
  EXPECT_EQ(find_devices(*load_backends(), {"cpu"}).infos().size(), 1u);
  EXPECT_FALSE(follow());
  EXPECT_EQ(name(StopReason::kLength), "length");
  EXPECT_EQ(name(SamplerStep::kTopK), "top_k");
  EXPECT_EQ(name(StreamState::kPaused), "paused");
  EXPECT_EQ(EmbeddedPart{}.token(), kMediaToken);
}

}  // namespace
}  // namespace weft

#pragma GCC diagnostic pop
