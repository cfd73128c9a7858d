// Statistics of shaders from drivers' compilers. They are printed for people, and bench/gpu.py parses them.
// Drivers that compile for a GPU without having one work, too (scripts/check_vulkan_statistics.py):
//   test_backend_vulkan --gtest_also_run_disabled_tests --gtest_filter='*VulkanStatistics*'
#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include "engine/model_impl.h"
#include "engine/test_support.h"
#include "model/family.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

/// A norm, and products of its rows with weights of all these types.
Graph products_of(std::span<const DType> types) {
  Graph graph;
  const SymbolId n = graph.add_symbol("n", 0, 64);
  const ValueId x = graph.add_input("x", DType::kF32, {Dim(1, n), 2048});
  const ValueId norm = graph.add(ops::Norm{}, {x}, "norm");
  for (const DType type : types) {
    const std::string name(info(type).name);
    const ValueId w = graph.add_weight("w" + name, type, {2048, 2048});
    graph.add_output(graph.add(ops::Matmul{}, {w, norm}, name));
  }
  return graph;
}

std::vector<vulkan::ShaderStatistics> statistics_of(std::span<const DType> types, bool asked) {
  const auto devices = test::vulkan_devices({.statistics = asked});
  return vulkan::shader_statistics(*devices.front(), products_of(types));
}

TEST(VulkanStatistics, AreReportedOnRequest) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  constexpr DType kTypes[] = {DType::kQ8_0};
  EXPECT_TRUE(statistics_of(kTypes, false).empty());
  const auto told = statistics_of(kTypes, true);
  if (told.empty()) GTEST_SKIP() << "the driver tells nothing of its shaders";
  for (const vulkan::ShaderStatistics& one : told) EXPECT_FALSE(one.numbers.empty()) << one.shader;
}

TEST(VulkanStatistics, DISABLED_ArePrinted) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  constexpr DType kTypes[] = {DType::kF16,  DType::kQ4_0, DType::kQ8_0,
                              DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};
  const auto devices = test::vulkan_devices({.statistics = true});
  std::set<std::string> shaders;
  const auto print = [&](const Graph& graph) {
    const auto supported = [&](const Node& node) { return devices.front()->supports(graph, node); };
    if (!std::ranges::all_of(graph.nodes(), supported)) return;
    for (const vulkan::ShaderStatistics& one : vulkan::shader_statistics(*devices.front(), graph)) {
      if (!shaders.insert(one.shader).second) continue;
      std::printf("shader %s:", one.shader.c_str());
      for (std::size_t i = 0; i < one.numbers.size(); ++i)
        std::printf("%s %s %.0f", i > 0 ? "," : "", one.numbers[i].first.c_str(), one.numbers[i].second);
      std::printf("\n");
    }
  };
  print(products_of(kTypes));
  for (const char* family :
       {"llama", "gemma3", "gemma3n", "qwen3moe", "gpt-oss", "deepseek2-lite", "mamba2", "rwkv7", "qwen35"}) {
    const auto model = test::golden(family);
    print(model::build_graph(model->impl().file, model->impl().description,
                             {.n_ubatch = 64, .n_outputs = 4, .n_cells = 4096, .n_extents = 64})
              .graph);
  }
}

}  // namespace
}  // namespace weft
