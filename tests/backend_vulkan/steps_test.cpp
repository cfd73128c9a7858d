// Steps of public plans with a GPU: reads during a step, and plans that end during a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "vulkan_test_support.h"
#include "weft/plan.h"

namespace weft {
namespace {

using Floats = std::vector<float>;

class VulkanSteps : public testing::Test {
 protected:
  void SetUp() override {
    if (test::vulkan_devices().empty()) GTEST_SKIP() << test::kNoVulkan;
  }

  /// Outputs that the host computes before and after the GPU, and one of the GPU.
  static Plan plan() {
    Graph g;
    const Dim n = g.symbol("n", 1, 64);
    const Value x = relu(g.input("x", {n, 32})).named("first");
    const Value far = (x * 3.0f).named("far");
    g.output("early", x * 2.0f);
    g.output("far_too", far + 1.0f);
    g.output("late", sum(far, {1}) * 1.0f);
    return Plan(std::move(g), open_devices(*test::registry_with_vulkan(), {"vulkan0"}),
                {.allowed = {.shapes = true, .tensors = true}, .pins = {{".", "cpu"}, {"^far", "vulkan0"}}});
  }
  static void expect_outputs(const Plan& steps, std::size_t n, float x) {
    EXPECT_EQ(steps.read("early"), Floats(n * 32, 2.0f * x));
    EXPECT_EQ(steps.read("far_too"), Floats(n * 32, 3.0f * x + 1.0f));
    EXPECT_EQ(steps.read("late"), Floats(n, 96.0f * x));
  }
};

TEST_F(VulkanSteps, OutputsAreThoseOfTheStepBefore) {
  Plan steps = plan();
  std::size_t before = 0;
  float value = 0.0f;
  for (int i = 0; i < 40; ++i) {
    const std::size_t n = static_cast<std::size_t>(1 + i * 7 % 64);
    const Floats x(n * 32, static_cast<float>(i + 1));
    if (i % 5 == 0) {
      steps.run({{"n", static_cast<std::int64_t>(n)}}, {{"x", x}});
    } else {
      steps.start({{"n", static_cast<std::int64_t>(n)}}, {{"x", x}});
      expect_outputs(steps, before, value);
      if (i % 3 == 0) steps.finish();
    }
    before = n;
    value = x[0];
    if (i % 5 == 0 || i % 3 == 0) expect_outputs(steps, before, value);
  }
  steps.finish();
  expect_outputs(steps, before, value);
}

TEST_F(VulkanSteps, PlansEndWithAStepOnItsWay) {
  for (int i = 0; i < 10; ++i) {
    const Floats x(64 * 32, 1.0f);
    {
      Plan steps = plan();
      steps.run({{"n", 64}}, {{"x", x}});
      steps.start({{"n", 64}}, {{"x", x}});
    }
    // What the plan had is others' now.
    std::vector<Floats> others;
    for (int k = 0; k < 50; ++k) others.emplace_back(64 * 32 + k, 7.0f);
    for (const Floats& other : others)
      EXPECT_TRUE(std::all_of(other.begin(), other.end(), [](float value) { return value == 7.0f; }));
  }
}

}  // namespace
}  // namespace weft
