// What a context promises beyond numbers: errors that change nothing, a full cache, one plan, no allocation.
#include "weft/context.h"

#include <unistd.h>

#include "engine/allocation_counter.h"
#include "engine/error_testing.h"
#include "engine/test_support.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "weft/error.h"
#include "weft/sampler.h"

namespace weft {
namespace {

std::shared_ptr<const Model> tiny_model() {
  static const auto model = Model::load(test::golden_dir() / "llama" / "model.gguf");
  return model;
}

std::string refusal(Context& context, const Batch& batch) {
  try {
    (void)context.decode(batch);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(Batch, OptionsThatContradictEachOtherAreRefused) {
  Batch batch;
  for (const ItemOptions& wrong :
       {ItemOptions{.n_best = 2}, ItemOptions{.logits = true, .n_best = -1}, ItemOptions{.log_sum_exp = true},
        ItemOptions{.logits = true, .logit_of = 3}, ItemOptions{.axes = {1, -1, 0}}}) {
    EXPECT_THROW(batch.add(5, 0, wrong), Error);
    EXPECT_THROW(batch.add({5, 6}, 0, wrong), Error);
  }
  EXPECT_EQ(batch.size(), 0);
}

TEST(Batch, TheOptionsOfSeveralTokensAreThoseOfTheLast) {
  Batch batch;
  batch.add({5, 6, 7}, 0, {.logits = true, .pos = 4, .n_best = 2});
  EXPECT_EQ(batch.options(0).pos, 4);
  EXPECT_EQ(batch.options(1).pos, kNextPos);
  EXPECT_FALSE(batch.options(1).logits);
  EXPECT_EQ(batch.options(2).pos, kNextPos);
  EXPECT_EQ(batch.options(2).n_best, 2);
}

TEST(Context, WrongBatchesAreRefusedAndChangeNothing) {
  Context context(tiny_model(), {.n_ctx = 64, .n_sequences = 2});
  Batch good;
  good.add(5, 0, {.logits = true});
  ASSERT_EQ(context.decode(good), DecodeStatus::kOk);
  const std::vector<std::pair<Batch::Item, const char*>> wrong = {
      {{.token = -1, .seq = 0}, "vocabulary"},
      {{.token = 512, .seq = 0}, "vocabulary"},
      {{.token = 1, .seq = 2}, "sequence"},
      {{.token = 1, .seq = -1}, "sequence"},
      {{.token = 1, .options = {.pos = 1 << 30}}, "position"},
      {{.token = 1, .options = {.pos = -7}}, "position"},
      {{.token = 1, .options = {.pos = 0}}, "taken"},
  };
  for (const auto& [item, word] : wrong) {
    Batch batch;
    batch.add(3, 1, {.logits = true});
    batch.add(item.token, item.seq, item.options);
    const std::string what = refusal(context, batch);
    EXPECT_NE(what.find(word), std::string::npos) << what;
    EXPECT_EQ(context.cache().cells_used(), 1);
    EXPECT_EQ(context.cache().next_pos(1), 0);
  }
  EXPECT_NE(refusal(context, Batch{}), "");
  Batch backwards;
  backwards.add(1, 1, {.pos = 5});
  backwards.add(1, 1, {.pos = 5});
  EXPECT_NE(refusal(context, backwards), "");
  test::expect_error(ErrorCode::kInvalidArgument, "outside 0 to 0", [&] { (void)context.logits(1); });
  EXPECT_THROW(context.cache().remove(9), Error);
}

TEST(Context, ImpossibleParametersAreRefused) {
  for (const ContextParams& params :
       {ContextParams{.n_ctx = -1}, ContextParams{.n_sequences = 0}, ContextParams{.n_ubatch = 0},
        ContextParams{.n_ctx = 1 << 30}, ContextParams{.n_outputs = -3}, ContextParams{.n_threads = -1}})
    EXPECT_THROW(Context(tiny_model(), params), Error);
}

TEST(Context, FullCachesReturnAStatusWithoutSideEffects) {
  Context context(tiny_model(), {.n_ctx = 64, .n_sequences = 2});
  Batch batch;
  batch.add(std::vector<Token>(60, 7), 0);
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  batch.clear();
  batch.add(std::vector<Token>(5, 7), 1);
  EXPECT_EQ(context.decode(batch), DecodeStatus::kCacheFull);
  EXPECT_EQ(context.cache().cells_used(), 60);
  context.cache().remove(0, 30);
  EXPECT_EQ(context.cache().next_pos(0), 30);
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
  context.cache().clear();
  EXPECT_EQ(context.cache().cells_used(), 0);
}

TEST(Context, RemovingTheEndRewinds) {
  const std::vector<Token> tokens = test::read_tokens(test::golden_dir() / "llama" / "tokens.json");
  Context context(tiny_model(), {.n_ctx = 64});
  const std::vector<float> first = test::all_logits(context, tokens, 48);
  context.cache().remove(0, 10);
  const std::vector<float> again = test::all_logits(context, std::span(tokens).subspan(10), 3);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), first.begin() + 10 * 512));
}

TEST(Context, BatchesOfAnySizeAreCutIntoSteps) {
  const std::vector<Token> tokens = test::read_tokens(test::golden_dir() / "llama" / "tokens.json");
  Context whole(tiny_model(), {.n_ctx = 64});
  Context cut(tiny_model(), {.n_ctx = 64, .n_ubatch = 11, .n_outputs = 4});
  EXPECT_TRUE(test::all_logits(whole, tokens, 48) == test::all_logits(cut, tokens, 48));
  EXPECT_EQ(cut.plan_stats().steps, 12);
}

TEST(Context, OnePlanServesPrefillOfAllSizesAndDecode) {
  Context context(tiny_model(), {.n_ctx = 512, .n_ubatch = 64});
  Batch batch;
  for (const int n : {64, 3, 17, 1, 40}) {
    batch.clear();
    batch.add(std::vector<Token>(static_cast<std::size_t>(n), 9), 0);
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  }
  for (int i = 0; i < 200; ++i) {
    batch.clear();
    batch.add(static_cast<Token>(i), 0, {.logits = true});
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  }
  const PlanStats stats = context.plan_stats();
  EXPECT_EQ(stats.compiled, 1);
  EXPECT_EQ(stats.steps, 205);
  EXPECT_EQ(stats.steps_shapes, 6);  // The chunks, and the first token after them.
  EXPECT_EQ(stats.steps_unchanged, 199);
}

TEST(Context, ADecodeStepAllocatesNothing) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers bring their own operator new";
  Context context(tiny_model(), {.n_ctx = 512});
  Sampler sampler({.seed = 1, .penalty_last_n = 32, .repetition_penalty = 1.1f},
                  tiny_model()->info().n_vocab);
  // A sampler's history grows by doubling; nothing else may allocate.
  for (int i = 0; i < 300; ++i) sampler.accept(i);
  Batch batch;
  batch.add(std::vector<Token>(20, 9), 0);
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  long before = 0;
  for (int i = 0; i < 100; ++i) {
    if (i == 1) before = test::n_allocations();
    const Token token = sampler.sample(context.logits(batch.size() - 1));
    sampler.accept(token);
    batch.clear();
    batch.add(token, 0, {.logits = true});
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  }
  EXPECT_EQ(test::n_allocations() - before, 0);
}

TEST(Context, LongRopeFactorsFollowTheContextsLength) {
  const gguf::File file = gguf::File::open(test::golden_dir() / "phi3" / "model.gguf");
  gguf::Writer writer;
  for (const auto& entry : file.metadata()) writer.set(entry.key, entry.value);
  writer.set("phi3.rope.scaling.original_context_length", std::uint32_t{64});
  for (const auto& t : file.tensors()) writer.add_tensor(t.name, t.dtype, t.shape, t.data);
  const std::vector<float> ones(16, 1.0f), twos(16, 2.0f);
  writer.add_tensor("rope_factors_short.weight", DType::kF32, {16}, std::as_bytes(std::span(ones)));
  writer.add_tensor("rope_factors_long.weight", DType::kF32, {16}, std::as_bytes(std::span(twos)));
  const auto path =
      std::filesystem::path(testing::TempDir()) / ("longrope-" + std::to_string(::getpid()) + ".gguf");
  writer.write_file(path);
  const auto model = Model::load(path);
  std::filesystem::remove(path);
  const auto plain = Model::load(test::golden_dir() / "phi3" / "model.gguf");
  const std::vector<Token> tokens = test::read_tokens(test::golden_dir() / "phi3" / "tokens.json");
  const auto logits = [&](const auto& of, int n_ctx) {
    Context context(of, {.n_ctx = n_ctx});
    return test::all_logits(context, tokens, 48);
  };
  EXPECT_TRUE(logits(model, 64) == logits(plain, 64));  // Factors of one change nothing.
  EXPECT_GT(test::nmse(logits(model, 128), logits(plain, 128)), 1e-4);
}

TEST(Context, CancellingLeavesTheCacheAsItWas) {
  Context context(tiny_model(), {.n_ctx = 4096, .n_ubatch = 16});
  Batch batch;
  batch.add(std::vector<Token>(3000, 9), 0);
  EXPECT_EQ(test::decode_and_cancel(context, batch), DecodeStatus::kCancelled);
  EXPECT_EQ(context.cache().cells_used(), 0);
  EXPECT_EQ(context.cache().next_pos(0), 0);
  batch.clear();
  batch.add(std::vector<Token>(3, 9), 0);
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
}

// Each call is for one decode: the running one or, where none is running, the next.
TEST(Context, EarlyCancelsApplyToTheNextDecodeOnly) {
  Context context(tiny_model(), {.n_ctx = 64});
  Batch batch;
  batch.add(7, 0, {.logits = true});
  context.cancel();
  context.cancel();
  EXPECT_NE(refusal(context, Batch{}), "");  // A refused batch does not count as a decode.
  EXPECT_EQ(context.decode(batch), DecodeStatus::kCancelled);
  EXPECT_EQ(context.cache().next_pos(0), 0);
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
  EXPECT_EQ(context.cache().next_pos(0), 1);
  EXPECT_FALSE(context.take_back_cancel());
  context.cancel();
  EXPECT_TRUE(context.take_back_cancel());
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
}

TEST(Context, ABatchThatCanNeverFitIsRefusedWithTheNumbers) {
  Context context(tiny_model(), {.n_ctx = 64, .n_sequences = 2});
  Batch batch;
  batch.add(std::vector<Token>(65, 7), 0);
  const std::string what = refusal(context, batch);
  EXPECT_NE(what.find("65"), std::string::npos) << what;
  EXPECT_NE(what.find("64"), std::string::npos) << what;
  // Few tokens, each in a page of its own: as long as others are there, they might make room.
  Batch apart;
  for (int i = 0; i < 5; ++i) apart.add(7, 0, {.pos = 64 * i});
  Batch other;
  other.add(7, 1);
  ASSERT_EQ(context.decode(other), DecodeStatus::kOk);
  EXPECT_EQ(context.decode(apart), DecodeStatus::kCacheFull);
  context.cache().clear();
  EXPECT_NE(refusal(context, apart).find("pages"), std::string::npos);
  EXPECT_TRUE(context.cache().consistent());
}

TEST(Context, TextIsShiftedToThePositionsThatRemoveReaches) {
  Context context(tiny_model(), {.n_ctx = 64});
  Batch batch;
  batch.add(std::vector<Token>(10, 7), 0);
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  const Pos end = context.cache().max_positions();
  EXPECT_THROW((void)context.cache().shift(0, 0, -1, end - 9), Error);
  ASSERT_TRUE(context.cache().shift(0, 0, -1, end - 10));
  EXPECT_EQ(context.cache().next_pos(0), end);
  const std::vector<std::byte> state = context.save(0);
  context.cache().clear();
  EXPECT_EQ(context.cache().cells_used(), 0);
  ASSERT_TRUE(context.restore(state, 0));
  context.cache().remove(0);
  EXPECT_EQ(context.cache().cells_used(), 0);
}

TEST(Context, WithoutAModelAndOnceMovedFromItIsAnError) {
  EXPECT_THROW(Context(nullptr), Error);
  Context first(tiny_model(), {.n_ctx = 64});
  Context second = std::move(first);
  Batch batch;
  batch.add(7, 0, {.logits = true});
  EXPECT_THROW((void)first.decode(batch), Error);  // NOLINT(bugprone-use-after-move): the question.
  EXPECT_THROW(first.cache().clear(), Error);
  EXPECT_THROW((void)first.logits(0), Error);
  EXPECT_THROW((void)first.log_sum_exp(0), Error);
  EXPECT_THROW((void)first.logit(0), Error);
  EXPECT_THROW(Context(tiny_model(), {}, first), Error);
  first.cancel();
  ASSERT_EQ(second.decode(batch), DecodeStatus::kOk);
  first = std::move(second);
  EXPECT_EQ(first.cache().next_pos(0), 1);
  EXPECT_EQ(first.decode(batch), DecodeStatus::kOk);
}

}  // namespace
}  // namespace weft
