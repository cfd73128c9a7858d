// Every op, type and shape of the conformance table on each Vulkan device of this machine.
#include "backend/conformance.h"

#include <gtest/gtest.h>

#include <map>

#include "vulkan_test_support.h"

namespace weft {
namespace {

void expect_conformance(Device& device) {
  struct Worst {
    double error = 0.0, tolerance = 0.0;
    int cases = 0, unsupported = 0;
  };
  std::map<std::string, Worst> by_op;
  for (const ConformanceCase& c : check_conformance(device)) {
    Worst& worst = by_op[c.op];
    ++worst.cases;
    if (!c.supported) ++worst.unsupported;
    worst.error = std::max(worst.error, c.error);
    worst.tolerance = std::max(worst.tolerance, c.tolerance);
    EXPECT_TRUE(c.passed()) << device.info().name << " " << c.op << " " << c.what << ": " << c.error << " > "
                            << c.tolerance;
  }
  for (const auto& [op, worst] : by_op) {
    testing::Test::RecordProperty(op, testing::PrintToString(worst.error));
    printf("%-16s %4d cases, %3d not supported, error %.2e, tolerance up to %.0e\n", op.c_str(), worst.cases,
           worst.unsupported, worst.error, worst.tolerance);
  }
  EXPECT_EQ(by_op.size(), std::variant_size_v<Op>) << "an op is without cases";
}

TEST(Conformance, OfVulkan) {
  const auto devices = test::vulkan_devices();
  if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
  for (const auto& device : devices) expect_conformance(*device);
}

TEST(Conformance, OfVulkanThroughStaging) {
  const auto devices = test::vulkan_devices({.staging = true});
  if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
  expect_conformance(*devices.front());
}

}  // namespace
}  // namespace weft
