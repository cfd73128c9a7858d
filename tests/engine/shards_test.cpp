// Layers that several devices compute together have the bits of one: heads, caches, rows of matrices and of
// experts. The devices are the CPU under several names, with tensors of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "engine/encoder_testing.h"
#include "engine/families_tried.h"
#include "engine/model_impl.h"
#include "engine/test_support.h"

namespace weft {
namespace {

PlacementParams together(int n_devices, std::vector<float> shares = {}) {
  PlacementParams placement;
  placement.devices = {"cpu"};
  for (int i = 1; i < n_devices; ++i) placement.devices.push_back("cpu" + std::to_string(i) + "=cpu");
  placement.split_rows = true;
  placement.shares = std::move(shares);
  return placement;
}

std::shared_ptr<const Model> load_sharded(const std::filesystem::path& path,
                                          const PlacementParams& placement) {
  ModelParams params;
  params.n_threads = 1;
  params.placement = placement;
  return Model::load(path, params);
}

const ContextParams kSmall = {.n_ctx = 256,
                              .n_sequences = 2,
                              .n_ubatch = 16,
                              .n_threads = 1,
                              .k_type = CacheType::kF32,
                              .v_type = CacheType::kF32};
const std::vector<Token> kFew = {9, 4, 7, 200, 1};

std::vector<Token> tokens_of(const std::string& family) {
  return test::read_tokens(test::golden_dir() / family / "tokens.json");
}
std::filesystem::path path_of(const std::string& family) {
  return test::golden_dir() / family / "model.gguf";
}

/// A prompt in pieces and token by token; a copy, a shift where the model can, and on.
std::vector<float> logits_of(const std::shared_ptr<const Model>& model, const std::vector<Token>& tokens) {
  Context context(model, kSmall);
  std::vector<float> result = test::all_logits(context, tokens, 7);
  EXPECT_TRUE(context.cache().copy(0, 1));
  if (context.cache().can_shift()) {
    context.cache().remove(1, 0, 3);
    EXPECT_TRUE(context.cache().shift(1, 3, -1, -3));
  }
  for (const SeqId seq : {1, 0}) {
    const std::vector<float> more = test::all_logits(context, kFew, 1, seq);
    result.insert(result.end(), more.begin(), more.end());
  }
  EXPECT_EQ(context.plan_stats().compiled, 1);
  return result;
}

class ShardsOfFamily : public testing::TestWithParam<const char*> {
 protected:
  void expect_same_bits(std::initializer_list<int> n_devices) const {
    const std::vector<Token> tokens = tokens_of(GetParam());
    const std::vector<float> expected = logits_of(load_sharded(path_of(GetParam()), {}), tokens);
    for (const int n : n_devices) {
      const std::vector<float> logits = logits_of(load_sharded(path_of(GetParam()), together(n)), tokens);
      EXPECT_TRUE(logits == expected) << n << " devices: they differ by " << test::nmse(logits, expected);
    }
  }
};

/// Few numbers of heads are divisible by 3.
TEST_P(ShardsOfFamily, GiveTheSameBits) { expect_same_bits({3}); }

INSTANTIATE_TEST_SUITE_P(Families, ShardsOfFamily, testing::ValuesIn(test::kFamilies), test::name_of_family);

class Shards : public ShardsOfFamily {};

TEST_P(Shards, OfAnyNumberOfDevicesGiveTheSameBits) { expect_same_bits({2, 4}); }

TEST_P(Shards, AStateIsThatOfOneDevice) {
  const std::vector<Token> tokens = tokens_of(GetParam());
  Context alone(load_sharded(path_of(GetParam()), {}), kSmall),
      shared(load_sharded(path_of(GetParam()), together(2)), kSmall);
  test::all_logits(alone, tokens, 16);
  test::all_logits(shared, tokens, 16);
  const std::vector<std::byte> state = shared.save(0);
  EXPECT_TRUE(state == alone.save(0));
  ASSERT_TRUE(shared.restore(state, 1));
  EXPECT_TRUE(test::all_logits(shared, kFew, 1, 1) == test::all_logits(alone, kFew, 1, 0));
}

INSTANTIATE_TEST_SUITE_P(Families, Shards, testing::ValuesIn(test::kinds_of_families()),
                         test::name_of_family);

class EncoderShards : public testing::TestWithParam<const char*> {};

TEST_P(EncoderShards, OfAnyNumberOfDevicesGiveTheSameBits) {
  const test::GoldenEncoder golden(GetParam());
  const auto rows = [&](const PlacementParams& placement) {
    Embedder embedder(load_sharded(golden.model(), placement), {.n_threads = 1});
    return embedder.embed(golden.texts, Pooling::kNone);
  };
  const std::vector<float> expected = rows({});
  for (const int n : {2, 3}) EXPECT_TRUE(rows(together(n)) == expected) << n << " devices";
}

INSTANTIATE_TEST_SUITE_P(Encoders, EncoderShards, testing::ValuesIn(test::kEncoders), test::name_of_family);

TEST(Shard, SharesMayBeUneven) {
  for (const char* const family : {"llama", "qwen3moe", "gpt2"}) {
    const std::vector<Token> tokens = tokens_of(family);
    const std::vector<float> expected = logits_of(load_sharded(path_of(family), {}), tokens);
    for (const std::vector<float>& shares :
         {std::vector<float>{3.0f, 1.0f, 0.0f}, {0.0f, 1.0f, 1.0f}, {0.0f, 0.0f, 1.0f}})
      EXPECT_TRUE(logits_of(load_sharded(path_of(family), together(3, shares)), tokens) == expected)
          << family;
  }
}

TEST(Shard, MoreDevicesThanAConcatTakesGiveTheSameBits) {
  const std::vector<Token> tokens = tokens_of("llama");
  const std::vector<float> expected = logits_of(load_sharded(path_of("llama"), {}), tokens);
  EXPECT_TRUE(logits_of(load_sharded(path_of("llama"), together(20)), tokens) == expected);
}

TEST(Shard, EachDeviceHasTheCachesOfItsHeadsAndItsRowsOfMatrices) {
  for (const char* const family : {"llama", "mixtral"}) {
    const auto model = load_sharded(path_of(family), together(2));
    const int n_layers = model->info().n_layers;
    ModelParams params;
    params.placement = together(2);
    const PlanReport plan = inspect_plan(path_of(family), params);
    ASSERT_EQ(plan.devices.size(), 2u);
    EXPECT_EQ(plan.devices[0].cache, plan.devices[1].cache) << family;
    EXPECT_GT(plan.devices[0].cache, 0u) << family;
    // Neither has a matrix of attention as a whole.
    for (const char* const part : {"attn_q", "attn_k", "attn_v", "attn_output"})
      for (const auto& weights : model->impl().weights)
        EXPECT_EQ(weights.count("blk.0." + std::string(part) + ".weight"), 0u) << part;
    // In a layer each device waits four times for the others: for the heads' outputs, their projection, the
    // hidden rows, and the projection of these.
    EXPECT_LE(static_cast<int>(plan.splits.size()), 2 * (4 * n_layers + 3)) << family;
  }
}

/// The leader of several processes would hold what the others have.
TEST(Shard, ExpertsRowsAreKeptForThoseAloneThatReadThemWhereTheyLie) {
  ModelParams params;
  params.placement = together(2);
  EXPECT_TRUE(Model::load(path_of("mixtral"), params)->impl().made_weights.empty());
  params.repack = false;
  const auto in_place = Model::load(path_of("mixtral"), params);
  EXPECT_FALSE(in_place->impl().made_weights.empty());
  const std::vector<Token> tokens = tokens_of("mixtral");
  EXPECT_TRUE(logits_of(in_place, tokens) == logits_of(load_sharded(path_of("mixtral"), {}), tokens));
}

TEST(Shard, EachPartOfAMatrixIsProgress) {
  ModelParams params;
  params.placement = together(2);
  std::vector<float> told;
  params.progress = [&](float progress) {
    told.push_back(progress);
    return true;
  };
  const auto model = Model::load(path_of("mixtral"), params);
  std::set<std::string> names;
  for (const auto& weights : model->impl().weights)
    for (const auto& [name, weight] : weights) names.insert(name);
  EXPECT_EQ(told.size(), names.size());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), 1.0f);
}

TEST(Shard, ATokenSendsPiecesOfRowsAndNoMore) {
  ModelParams params;
  params.placement = together(2);
  const auto path = path_of("llama");
  const PlanReport plan = inspect_plan(path, params);
  const ModelInfo info = load_sharded(path, {})->info();
  std::uint64_t bytes = 0;
  for (const PlanReport::Copy& copy : plan.copies)
    if (copy.value.starts_with("blk.") && copy.value.find('#') != std::string::npos) bytes += copy.bytes;
  // In each layer these are the heads' outputs, both sums and the hidden rows: each device gets the halves of
  // the other.
  const FileInfo file = inspect(path);
  const auto n_ff = std::find_if(file.tensors.begin(), file.tensors.end(), [](const auto& tensor) {
                      return tensor.name == "blk.0.ffn_up.weight";
                    })->shape[0];
  const auto n = static_cast<std::uint64_t>(info.n_layers);
  EXPECT_LE(bytes, n * sizeof(float) * static_cast<std::uint64_t>(3 * info.n_embd + n_ff));
}

}  // namespace
}  // namespace weft
