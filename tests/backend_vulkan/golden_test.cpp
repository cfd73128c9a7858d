// Whole models on each Vulkan device: against PyTorch's logits, and against themselves cut into other pieces,
// bit by bit.
#include <algorithm>
#include <string_view>

#include "engine/families_tried.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

class VulkanGolden : public testing::TestWithParam<const char*> {};

TEST_P(VulkanGolden, LogitsAreThoseOfPyTorchAndTheSameInAnyPieces) {
  const auto devices = vulkan::backend().list();
  if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
  const auto dir = test::golden_dir() / GetParam();
  const std::vector<Token> tokens = test::read_tokens(dir / "tokens.json");
  const std::vector<float> reference = test::read_floats(dir / "logits.f32");
  for (const DeviceInfo& device : devices) {
    const auto model = test::load_on_vulkan(dir / "model.gguf", device.name);
    std::vector<float> first;
    for (const std::size_t piece : {tokens.size(), std::size_t{7}, std::size_t{1}}) {
      Context context(model, {.n_ctx = 128, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
      const std::vector<float> logits = test::all_logits(context, tokens, piece);
      if (first.empty()) {
        first = logits;
        const double difference = test::nmse(logits, reference);
        RecordProperty("nmse_" + device.name, testing::PrintToString(difference));
        EXPECT_LE(difference, 1e-6) << device.name;
      }
      EXPECT_TRUE(logits == first) << "pieces of " << piece << " on " << device.name;
      EXPECT_EQ(context.plan_stats().compiled, 1);
    }
    if (GetParam() == std::string_view("gemma4-moe")) continue;  // Rounding makes it choose other experts.
    Context half(model, {.n_ctx = 128});
    EXPECT_LE(test::nmse(test::all_logits(half, tokens, 16), reference), 1e-3) << "f16 cache";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, VulkanGolden, testing::ValuesIn(test::kinds_of_families()),
                         test::name_of_family);

/// Real models, if they are there: logits near the CPU's, and the same next tokens.
class VulkanReal : public testing::TestWithParam<const char*> {};

TEST_P(VulkanReal, LogitsAreNearThoseOfTheCpu) {
  const auto devices = vulkan::backend().list();
  if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
  const auto path = test::cached_model(GetParam());
  if (!path) GTEST_SKIP() << GetParam() << " is not in the model cache (make models fetches it)";
  const auto on_cpu = Model::load(*path);
  const std::vector<Token> tokens =
      on_cpu->tokenizer().encode("The history of bread begins in the fields of");
  Context expected(on_cpu, {.n_ctx = 256});
  const std::vector<float> truth = test::all_logits(expected, tokens, tokens.size());
  for (const DeviceInfo& device : devices) {
    Context context(test::load_on_vulkan(*path, device.name), {.n_ctx = 256});
    const double difference = test::nmse(test::all_logits(context, tokens, 5), truth);
    RecordProperty("nmse_" + device.name, testing::PrintToString(difference));
    EXPECT_LE(difference, test::kNearReal) << device.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, VulkanReal, testing::Values(test::kSmolLm2, test::kGemma3),
                         [](const auto& test) { return "model" + std::to_string(test.index); });

}  // namespace
}  // namespace weft
