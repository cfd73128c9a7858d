// The module as a program finds it: a registry opens the file, and its devices and errors are usable here.
#include "vulkan_test_support.h"
#include "weft/error.h"

namespace weft {
namespace {

TEST(VulkanModule, IsOpenedAtRunTimeAndGivesDevices) {
  Registry registry;
  registry.load_module(WEFT_VULKAN_MODULE);
  EXPECT_TRUE(registry.problems().empty()) << registry.problems()[0];
  ASSERT_EQ(registry.backends().size(), 1u);
  if (registry.devices().empty()) GTEST_SKIP() << test::kNoVulkan;
  for (const DeviceInfo& info : registry.devices()) {
    const auto device = registry.open(info.name, {.name = "mine"});
    EXPECT_EQ(device->info().backend, "vulkan");
    EXPECT_EQ(device->info().name, "mine");
    EXPECT_THROW(device->create_state(DType::kF32, std::vector<std::int64_t>{std::int64_t{1} << 30, 64, 128}),
                 Error);
  }
}

}  // namespace
}  // namespace weft
