// What a step costs the host, with recorded commands and with commands recorded anew. Times are printed for
// people; what is asserted is how often commands were recorded.
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
      const bool output = static_cast<ValueId>(v) == graph.logits;
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
    symbols[static_cast<std::size_t>(graph.n_outputs)] = 1;
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

TEST(VulkanStepCost, CommandsAreRecordedOnceAndEarlyPiecesStartTheDevice) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  const auto path = test::golden_dir() / "gemma3" / "model.gguf";
  constexpr int kSteps = 20;
  const auto microseconds = [](double seconds) { return seconds * 1e6; };
  for (const bool anew : {false, true}) {
    Steps steps(path, {.record_each_step = anew});
    const DevicePlan& compiled = *steps.plan;
    std::printf("%d launches, %d phases, %s\n", compiled.n_launches(), compiled.n_phases(),
                anew ? "recorded anew each step" : "recorded once");
    steps.run(1, false);
    for (const bool shapes : {false, true}) {
      const double before = steps.stats().submit_seconds, work = compiled.kernel_seconds();
      for (int i = 0; i < kSteps; ++i) steps.run(shapes ? 1 + (i + 1) % 2 : 1, shapes);
      std::printf("  change %-6s host %.0f us a step, device %.1f ms\n", shapes ? "shapes" : "none",
                  microseconds(steps.stats().submit_seconds - before) / kSteps,
                  (compiled.kernel_seconds() - work) * 1e3 / kSteps);
    }
    EXPECT_EQ(steps.stats().times_recorded, anew ? 2 * kSteps + 1 : 1);
  }
  for (const int per_piece : {0, 64, 16}) {
    Steps steps(path, {.launches_per_piece = per_piece});
    std::vector<double> first_work, recorded;
    for (int i = 0; i < kSteps; ++i) {
      steps.compile();
      steps.run(1, false);
      first_work.push_back(steps.stats().first_work_seconds);
      recorded.push_back(steps.stats().first_recording_seconds);
      EXPECT_LE(first_work.back(), recorded.back());
    }
    const auto median = [](std::vector<double>& values) {
      std::nth_element(values.begin(), values.begin() + kSteps / 2, values.end());
      return values[kSteps / 2];
    };
    std::printf("fresh plan in pieces of %d: device has work after %.0f us, all recorded after %.0f us\n",
                per_piece, microseconds(median(first_work)), microseconds(median(recorded)));
  }
}

}  // namespace
}  // namespace weft
