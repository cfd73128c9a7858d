// Whole models over two processes and this one: the bits that one process gives.
#include <gtest/gtest.h>

#include "backend_remote/remote_testing.h"
#include "engine/test_support.h"

namespace weft {
namespace {

std::shared_ptr<const Model> load_spread(const std::filesystem::path& path, const test::RemoteCpus& remotes) {
  ModelParams params;
  params.n_threads = 1;
  params.registry = remotes.registry();
  params.placement.devices = {"rank1.cpu", "rank2.cpu"};
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
  const test::RemoteCpus remotes(2);
  Context spread(load_spread(dir / "model.gguf", remotes), in);
  const std::vector<float> logits = test::all_logits(spread, tokens, 7);
  EXPECT_TRUE(logits == expected) << "they differ by " << test::nmse(logits, expected);
  EXPECT_EQ(spread.plan_stats().compiled, 1);
}

INSTANTIATE_TEST_SUITE_P(Families, RemoteGolden, testing::ValuesIn(test::kFamilies), test::name_of_family);

}  // namespace
}  // namespace weft
