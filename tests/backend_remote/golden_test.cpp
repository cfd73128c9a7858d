// Whole models over this process and others: the bits that one process gives.
#include <gtest/gtest.h>

#include "backend_remote/remote_testing.h"
#include "engine/families_tried.h"
#include "engine/test_support.h"

namespace weft {
namespace {

std::shared_ptr<const Model> load_spread(const std::filesystem::path& path, const test::RemoteCpus& remotes,
                                         int n_remotes, bool in_shards) {
  ModelParams params;
  params.n_threads = 1;
  params.registry = remotes.registry();
  if (in_shards) params.placement.devices = {"cpu"};
  for (int rank = 1; rank <= n_remotes; ++rank)
    params.placement.devices.push_back("rank" + std::to_string(rank) + ".cpu");
  params.placement.split_rows = in_shards;
  params.placement.n_ctx = 128;
  params.placement.n_ubatch = 16;
  return Model::load(path, params);
}

class RemoteGolden : public testing::TestWithParam<const char*> {};

TEST_P(RemoteGolden, SpreadOverProcessesItHasTheSameBits) {
  const auto dir = test::golden_dir() / GetParam();
  const std::vector<Token> tokens = test::read_tokens(dir / "tokens.json");
  ModelParams params;
  params.n_threads = 1;
  const ContextParams in = {
      .n_ctx = 128, .n_ubatch = 16, .k_type = CacheType::kF32, .v_type = CacheType::kF32};
  Context alone(Model::load(dir / "model.gguf", params), in);
  const std::vector<float> expected = test::all_logits(alone, tokens, 7);
  for (const int n_remotes : {1, 2, 3}) {
    const test::RemoteCpus remotes(n_remotes);
    for (const bool in_shards : {false, true}) {
      Context spread(load_spread(dir / "model.gguf", remotes, n_remotes, in_shards), in);
      // As steps one by one, and as a batch whose steps overlap.
      for (const std::size_t piece : {std::size_t{7}, tokens.size()}) {
        spread.cache().clear();
        const std::vector<float> logits = test::all_logits(spread, tokens, piece);
        EXPECT_TRUE(logits == expected)
            << "they differ by " << test::nmse(logits, expected) << " over " << n_remotes << " more, "
            << piece << " tokens at once" << (in_shards ? ", in shards" : "");
      }
      EXPECT_EQ(spread.plan_stats().compiled, 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RemoteGolden, testing::ValuesIn(test::kinds_of_families()),
                         test::name_of_family);

/// So that they overlap; what looks ahead stays together, and few rows cost as much as one step of them.
TEST(RemoteSteps, ALongPromptGoesInSeveral) {
  const test::RemoteCpus remotes(1);
  Context context(load_spread(test::golden_dir() / "llama" / "model.gguf", remotes, 1, false),
                  {.n_ctx = 1024, .n_ubatch = 512});
  const auto n_steps = [&](int n_tokens, bool looks_ahead) {
    context.cache().clear();
    Batch batch;
    for (int i = 0; i < n_tokens; ++i)
      batch.add(i % 200, 0, {.logits = i + 1 == n_tokens, .attend_to = looks_ahead && i == 0 ? 1 : -1});
    const std::int64_t before = context.plan_stats().steps;
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    return context.plan_stats().steps - before;
  };
  EXPECT_EQ(n_steps(127, false), 1);
  EXPECT_EQ(n_steps(128, false), 2);
  EXPECT_EQ(n_steps(1000, false), 8);
  EXPECT_EQ(n_steps(128, true), 1);
}

}  // namespace
}  // namespace weft
