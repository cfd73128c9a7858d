// Models that write about a source on each Vulkan device: against PyTorch's logits, and against themselves
// cut into other pieces, bit by bit.
#include "engine/families_tried.h"
#include "engine/source_testing.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

class VulkanSources : public testing::TestWithParam<const char*> {};

TEST_P(VulkanSources, LogitsAreThoseOfPyTorchAndTheSameInAnyPieces) {
  const auto devices = vulkan::backend().list();
  if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
  const test::GoldenSources golden(GetParam());
  for (const DeviceInfo& device : devices)
    test::expect_golden(test::load_on_vulkan(golden.model(), device.name), golden, device.name);
}

constexpr const char* kSomeSources[] = {"umt5"};
INSTANTIATE_TEST_SUITE_P(Families, VulkanSources,
                         testing::ValuesIn(test::some_or_all(kSomeSources, test::kSourceReaders)),
                         test::name_of_family);

}  // namespace
}  // namespace weft
