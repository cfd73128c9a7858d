// Quantised caches on Vulkan are near the CPU's results for the same types. They have the same bits with any
// chunking, and are rotated when sequences are shifted.
#include "engine/test_support.h"
#include "vulkan_test_support.h"
#include "weft/error.h"

namespace weft {
namespace {

class VulkanCacheTypes : public testing::TestWithParam<const char*> {};

TEST_P(VulkanCacheTypes, AreNearTheCpuInAnyPiecesAndShifted) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  const auto dir = test::golden_dir() / GetParam();
  const std::vector<Token> tokens = test::read_tokens(dir / "tokens.json"), few = {9, 4, 7, 200, 1};
  const auto on_cpu = Model::load(dir / "model.gguf", {.placement = {.devices = {"cpu"}}});
  const auto on_vulkan = test::load_on_vulkan(dir / "model.gguf");
  for (const CacheType type : {CacheType::kQ8_0, CacheType::kQ4_0, CacheType::kQ4_1, CacheType::kQ5_0,
                               CacheType::kQ5_1, CacheType::kIQ4_NL}) {
    const auto logits = [&](const std::shared_ptr<const Model>& model, std::size_t piece) {
      Context context(model, {.n_ctx = 256, .k_type = type, .v_type = type});
      std::vector<float> result = test::all_logits(context, tokens, piece);
      if (context.cache().can_shift()) {
        context.cache().remove(0, 3, 20);
        EXPECT_TRUE(context.cache().shift(0, 20, -1, -17));
      }
      const std::vector<float> more = test::all_logits(context, few, piece);
      result.insert(result.end(), more.begin(), more.end());
      return result;
    };
    const std::vector<float> found = logits(on_vulkan, tokens.size());
    // Codes at the middle between two fall to either side: a few steps of the cache's own error.
    const double difference = test::nmse(found, logits(on_cpu, tokens.size()));
    RecordProperty("nmse_" + std::to_string(static_cast<int>(type)), testing::PrintToString(difference));
    // The device tries fewer scales of IQ4_NL than the CPU.
    EXPECT_LE(difference, type == CacheType::kIQ4_NL ? 6e-2 : 1e-3);
    EXPECT_TRUE(logits(on_vulkan, 7) == found);
  }
}

TEST(VulkanCells, CellsOfAnOddNumberOfBlocksAreRefusedWithTheWayOut) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  const auto model = test::load_on_vulkan(test::golden_dir() / "gemma3" / "model.gguf");  // One head of 32.
  try {
    Context context(model, {.n_ctx = 256, .k_type = CacheType::kQ8_0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("use f16 caches"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, VulkanCacheTypes, testing::Values("llama", "qwen3", "phi3", "gpt2"));

}  // namespace
}  // namespace weft
