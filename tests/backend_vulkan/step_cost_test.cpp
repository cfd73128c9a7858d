// The host's cost of a step, with commands recorded before and with new ones. Times are printed for people;
// the tests assert how often commands were recorded. With the real models:
//   test_backend_vulkan --gtest_also_run_disabled_tests --gtest_filter='*StepCostReal*'
#include <algorithm>
#include <cstdio>

#include "backend/vulkan/plan.h"
#include "engine/model_impl.h"
#include "engine/test_support.h"
#include "model/family.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

/// The model's graph with inputs of zeros: all the work of a step, and no meaning.
struct Steps {
  Steps(const std::filesystem::path& path, const vulkan::VulkanOptions& options)
      : model(test::load_on_vulkan(path, "vulkan0", options)),
        device(*model->impl().devices.devices[static_cast<std::size_t>(model->impl().devices.named[0])]) {
    graph = model::build_graph(model->impl().file, model->impl().description,
                               {.n_ubatch = 8, .n_outputs = 4, .n_cells = 256, .n_extents = 4});
    const auto& weights = model->impl().weights[static_cast<std::size_t>(model->impl().devices.named[0])];
    const auto bounds = graph.graph.bounds();
    bindings.resize(graph.graph.values().size());
    for (std::size_t v = 0; v < bindings.size(); ++v) {
      const ValueInfo& value = graph.graph.values()[v];
      const std::vector<std::int64_t> shape = value.shape.dims(bounds);
      const bool output = graph.graph.is_output(static_cast<ValueId>(v));
      if (value.kind == ValueKind::kWeight) {
        bindings[v] = weights.at(value.name).get();
      } else if (value.kind != ValueKind::kResult || output) {
        tensors.push_back(value.kind == ValueKind::kState ? device.create_state(value.dtype, shape)
                                                          : device.create_host_tensor(value.dtype, shape));
        bindings[v] = tensors.back().get();
      }
    }
    compile();
  }
  void compile() { plan = device.compile(graph.graph, bindings, {.allowed = {.shapes = true}}); }
  void run(std::int64_t n_tokens, bool shapes) {
    std::vector<std::int64_t> symbols(graph.graph.symbols().size(), 0);
    symbols[static_cast<std::size_t>(graph.n_tokens)] = n_tokens;
    for (const SymbolId symbol : {graph.n_wanted, graph.n_outputs})
      symbols[static_cast<std::size_t>(symbol)] = 1;
    plan->submit(symbols, bindings, {.shapes = shapes});
    plan->wait();
  }
  const vulkan::PlanStats& stats() const { return vulkan::stats(*plan); }

  std::shared_ptr<const Model> model;
  Device& device;
  model::ModelGraph graph;
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  Bindings bindings;
  std::unique_ptr<DevicePlan> plan;
};

/// The middle of them, in microseconds.
double median(std::vector<double> seconds) {
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle * 1e6;
}

/// By step: seconds of the host from the call to the work on its way.
std::vector<double> submit_seconds(Steps& steps, int n, bool shapes) {
  std::vector<double> result;
  for (int i = 0; i < n; ++i) {
    const double before = steps.stats().submit_seconds;
    steps.run(shapes ? 1 + (i + 1) % 2 : 1, shapes);
    result.push_back(steps.stats().submit_seconds - before);
  }
  return result;
}

void print_costs(const std::filesystem::path& path, int n_steps) {
  for (const bool anew : {false, true}) {
    Steps steps(path, {.record_each_step = anew});
    std::printf("%d launches, %d phases, %s\n", steps.plan->n_launches(), steps.plan->n_phases(),
                anew ? "recorded anew each step" : "recorded once");
    steps.run(1, false);
    std::printf("  a step of one row has %d phases\n", steps.stats().step_phases);
    for (const bool shapes : {false, true})
      std::printf("  change %-6s host %.0f us a step\n", shapes ? "shapes" : "none",
                  median(submit_seconds(steps, n_steps, shapes)));
    // One row and two are steps of different launches.
    EXPECT_EQ(steps.stats().times_recorded, anew ? 2 * n_steps + 1 : 2);
  }
  for (const int first_piece : {0, 64, 16}) {
    Steps steps(path, {.first_piece = first_piece});
    std::vector<double> first_work, recorded;
    for (int i = 0; i < n_steps; ++i) {
      steps.compile();
      steps.run(1, false);
      first_work.push_back(steps.stats().first_work_seconds);
      recorded.push_back(steps.stats().first_recording_seconds);
      EXPECT_LE(first_work.back(), recorded.back());
    }
    const std::string pieces =
        first_piece == 0 ? "one piece" : "pieces from " + std::to_string(first_piece) + " launches on";
    std::printf("  fresh plan in %s: device has work after %.0f us, all recorded after %.0f us\n",
                pieces.c_str(), median(first_work), median(recorded));
  }
}

TEST(VulkanStepCost, CommandsAreRecordedOnceAndEarlyPiecesStartTheDevice) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  print_costs(test::golden_dir() / "gemma3" / "model.gguf", 20);
}

/// Products of the norm, rope and stores, attention, its pages, its product and the next norm, gate and up,
/// glu, down and the next norm. Gemma 3 has norms of heads, too. Beside the layers are the table of tokens,
/// masks and the head, eight or nine and, where inputs are brought, one more.
TEST(VulkanStepCost, ALayerOfOneRowHasEightPhases) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  const auto phases = [](const char* family) {
    Steps steps(test::golden_dir() / family / "model.gguf", {});
    steps.run(1, false);
    return steps.stats().step_phases;
  };
  EXPECT_EQ((phases("llama-rope3") - 8) / 3, 8);
  EXPECT_EQ((phases("gemma3") - 9) / 8, 9);
}

class VulkanStepCostReal : public testing::TestWithParam<const char*> {};

TEST_P(VulkanStepCostReal, DISABLED_IsPrinted) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  const auto path = test::cached_model(GetParam());
  if (!path) GTEST_SKIP() << GetParam() << " is not in the model cache (make models fetches it)";
  print_costs(*path, 12);
}

INSTANTIATE_TEST_SUITE_P(Models, VulkanStepCostReal, testing::Values(test::kSmolLm2, test::kGemma3),
                         [](const auto& test) { return "model" + std::to_string(test.index); });

}  // namespace
}  // namespace weft
