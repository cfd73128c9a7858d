// Every op, type and shape of the conformance table on each Vulkan device of this machine.
#include "weft/conformance.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "engine/families_tried.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

void expect_conformance(Device& device, const ConformanceOptions& options = {}) {
  const std::vector<ConformanceCase> cases = check_conformance(device, options);
  const std::string table = to_table(cases);
  std::printf("%s: %s\n%s", device.info().name.c_str(), device.info().description.c_str(), table.c_str());
  for (const ConformanceRow& row : by_op(cases)) {
    EXPECT_EQ(row.n_failed, 0) << row.op;
    // No layer of a model on the GPU needs the CPU.
    if (row.op == "delta_rule" || row.op == "selective_scan" || row.op == "short_conv") {
      EXPECT_EQ(row.n_unsupported, 0) << row.op;
    }
  }
  EXPECT_GE(cases.size(), 100u);
  if (options.every == 1) {
    EXPECT_EQ(by_op(cases).size(), op_names().size()) << "an op is without cases";
  }
}

TEST(Conformance, OfVulkan) {
  const auto devices = test::vulkan_devices();
  if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
  for (const auto& device : devices) expect_conformance(*device, {.every = test::tries_all() ? 1 : 4});
}

TEST(Conformance, OfVulkanThroughStagingAndWithoutWhatADeviceMayLack) {
  const auto devices = test::vulkan_devices({.staging = true, .used = {false, false, false}});
  if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
  // The options select code paths, not ops; the test above tries all ops.
  expect_conformance(*devices.front(), {.every = test::tries_all() ? 1 : 10});
}

}  // namespace
}  // namespace weft
