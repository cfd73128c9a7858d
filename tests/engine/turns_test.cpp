// Contexts that take turns compute in the same memory what each computes in its own.
#include "engine/allocation_counter.h"
#include "engine/test_support.h"

namespace weft {
namespace {

std::shared_ptr<const Model> load(const char* family, const PlacementParams& placement) {
  ModelParams params;
  params.n_threads = 1;
  params.placement = placement;
  return Model::load(test::golden_dir() / family / "model.gguf", params);
}

struct SpreadTurns {
  const char* name;
  PlacementParams placement;
};

class Turns : public testing::TestWithParam<SpreadTurns> {
 protected:
  static constexpr ContextParams kSmall = {.n_ctx = 256, .n_ubatch = 4, .n_threads = 2};
  static constexpr ContextParams kLarge = {.n_ctx = 256, .n_ubatch = 48, .n_threads = 1};
  const std::vector<Token> tokens = test::read_tokens(test::golden_dir() / "llama" / "tokens.json");
  const std::shared_ptr<const Model> model = load("llama", GetParam().placement);
  const std::shared_ptr<const Model> other = load("gemma3", GetParam().placement);
};

TEST_P(Turns, GiveTheBitsThatEachHasAlone) {
  // What came first has its steps before the memory grows and after.
  Context a(model, kSmall), alone_a(model, kSmall);
  const auto equal = [&](Context& context, Context& alone, std::size_t piece) {
    return test::all_logits(context, tokens, piece) == test::all_logits(alone, tokens, piece);
  };
  EXPECT_TRUE(equal(a, alone_a, 4));
  const std::int64_t before = a.plan_stats().shared_workspace_bytes;
  Context b(model, kLarge, a), alone_b(model, kLarge);
  EXPECT_GT(a.plan_stats().shared_workspace_bytes, before);
  EXPECT_TRUE(equal(a, alone_a, 1));
  EXPECT_TRUE(equal(b, alone_b, 48));
  {
    Context c(other, kLarge, b), alone_c(other, kLarge);
    for (const std::size_t piece : {3u, 4u}) {
      EXPECT_TRUE(equal(c, alone_c, 7 * piece));
      EXPECT_TRUE(equal(a, alone_a, piece));
      EXPECT_TRUE(equal(b, alone_b, 5 * piece));
    }
  }
  EXPECT_TRUE(equal(a, alone_a, 4));
}

TEST_P(Turns, TakeTheMemoryOfTheLargestAndStepsTakeNoMore) {
  Context large(model, kLarge), small(other, kSmall, large);
  const std::int64_t alone = std::max(Context(model, kLarge).plan_stats().shared_workspace_bytes,
                                      Context(other, kSmall).plan_stats().shared_workspace_bytes);
  EXPECT_EQ(large.plan_stats().shared_workspace_bytes, alone);
  EXPECT_EQ(small.plan_stats().shared_workspace_bytes, alone);
  Batch batch;
  const auto step = [&](Context& context) {
    batch.clear();
    batch.add(7, 0, {.logits = true});
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  };
  long allocations = 0;
  for (int i = 0; i < 8; ++i) {
    if (i == 2) allocations = test::n_allocations();
    step(large);
    step(small);
  }
  if (test::kCountsAllocations) {
    EXPECT_EQ(test::n_allocations() - allocations, 0);
  }
  EXPECT_EQ(large.plan_stats().shared_workspace_bytes, alone);
}

INSTANTIATE_TEST_SUITE_P(
    Spreads, Turns,
    testing::Values(SpreadTurns{"cpu", {.devices = {"cpu"}}},
                    SpreadTurns{"layers", {.devices = {"cpu", "cpu1=cpu"}, .n_layers = 2}},
                    SpreadTurns{"rows", {.devices = {"cpu", "cpu1=cpu"}, .split_rows = true}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace weft
