// Encoders on each Vulkan device: against transformers, and against themselves in other company, bit by bit.
#include "engine/encoder_testing.h"
#include "engine/families_tried.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

class VulkanEncoders : public testing::TestWithParam<const char*> {};

TEST_P(VulkanEncoders, MatchTransformersInAnyBatch) {
  const auto devices = vulkan::backend().list();
  if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
  const test::GoldenEncoder golden(GetParam());
  for (const DeviceInfo& device : devices)
    test::expect_golden(test::load_on_vulkan(golden.model(), device.name), golden, device.name);
}

/// They have all kinds of ops together.
constexpr const char* kSomeEncoders[] = {"bert-rank",      "modern-bert-rank", "gemma-embedding",
                                         "nomic-bert-moe", "jina-bert-v2",     "t5encoder-umt5",
                                         "neo-bert"};
INSTANTIATE_TEST_SUITE_P(Families, VulkanEncoders,
                         testing::ValuesIn(test::some_or_all(kSomeEncoders, test::kEncoders)),
                         test::name_of_family);

}  // namespace
}  // namespace weft
