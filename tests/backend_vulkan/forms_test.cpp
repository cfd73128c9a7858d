// Variants of shaders for missing abilities of a device: variants with 8-bit and 16-bit loads have the bits
// of variants that extract these from words.
#include <cmath>

#include "engine/families_tried.h"
#include "tensor/codec.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

constexpr vulkan::Abilities kAll = {};
constexpr vulkan::Abilities kNarrowAlone = {.byte_dots = false, .shuffles = false};

vulkan::Abilities without_narrow(vulkan::Abilities abilities) {
  abilities.narrow_loads = false;
  return abilities;
}

/// Rows of a table, and products with it, of `columns` columns. Nothing where the device does not know the
/// type.
std::vector<float> rows_and_products(Device& device, DType dtype, std::int64_t columns) {
  constexpr std::int64_t kRows = 5, kFew = 2;
  Graph graph;
  const ValueId w = graph.add_weight("w", dtype, {kRows, columns});
  const ValueId ids = graph.add_input("ids", DType::kI32, {kFew});
  const ValueId rows = graph.add(ops::GetRows{}, {w, ids}, "rows");
  const ValueId product = graph.add(ops::Matmul{}, {w, rows}, "product");
  graph.add_output(rows);
  graph.add_output(product);
  for (const Node& node : graph.nodes())
    if (!device.supports(graph, node)) return {};
  std::vector<float> values(static_cast<std::size_t>(columns));
  const std::size_t n = row_bytes(dtype, columns);
  std::vector<std::byte> bytes(n * kRows);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::sin(static_cast<float>(i * i + 7 * r)) * static_cast<float>(r + 1);
    pack_row(dtype, values, bytes.data() + r * n);
  }
  const auto weight = device.create_weight(dtype, std::vector<std::int64_t>{kRows, columns}, {bytes, {}});
  const auto chosen = device.create_host_tensor(DType::kI32, std::vector<std::int64_t>{kFew});
  const auto y0 = device.create_host_tensor(DType::kF32, std::vector<std::int64_t>{kFew, columns});
  const auto y1 = device.create_host_tensor(DType::kF32, std::vector<std::int64_t>{kFew, kRows});
  reinterpret_cast<std::int32_t*>(chosen->host().data())[0] = kRows - 1;
  reinterpret_cast<std::int32_t*>(chosen->host().data())[1] = 1;
  Bindings bindings(graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(w)] = weight.get();
  bindings[static_cast<std::size_t>(ids)] = chosen.get();
  bindings[static_cast<std::size_t>(rows)] = y0.get();
  bindings[static_cast<std::size_t>(product)] = y1.get();
  const auto plan = device.compile(graph, bindings, {});
  plan->submit({}, bindings, {});
  plan->wait();
  std::vector<float> result;
  for (const auto& tensor : {&y0, &y1}) {
    const auto* const floats = reinterpret_cast<const float*>((*tensor)->host().data());
    result.insert(result.end(), floats, floats + (*tensor)->host().size() / sizeof(float));
  }
  return result;
}

TEST(VulkanForms, NarrowLoadsReadTheSameBitsOfEveryType) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  std::vector<vulkan::Abilities> tried = {kAll};
  if (test::tries_all()) tried.push_back(kNarrowAlone);
  for (const vulkan::Abilities& used : tried) {
    const auto narrow = test::vulkan_devices({.used = used}).front();
    const auto wide = test::vulkan_devices({.used = without_narrow(used)}).front();
    int n_types = 0, n_tried = 0;
    for (const DTypeInfo& type : all_dtypes()) {
      if (type.kind == DTypeKind::kInteger || (n_tried++ % 3 != 0 && !test::tries_all())) continue;
      for (const std::int64_t columns : {37, 48, 512}) {
        if (columns % type.block_elements != 0 || (columns == 48 && !test::tries_all())) continue;
        const std::vector<float> found = rows_and_products(*narrow, type.type, columns);
        EXPECT_EQ(found, rows_and_products(*wide, type.type, columns)) << type.name << ", " << columns;
        n_types += columns == 512 && !found.empty() ? 1 : 0;
      }
    }
    EXPECT_GE(n_types, test::tries_all() ? 27 : 8);
  }
}

TEST(VulkanForms, NarrowLoadsReadTheSameBitsOfCaches) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  const auto dir = test::golden_dir() / "llama";
  const std::vector<Token> tokens = test::read_tokens(dir / "tokens.json");
  const auto narrow = test::load_on_vulkan(dir / "model.gguf");
  const auto wide = test::load_on_vulkan(dir / "model.gguf", "vulkan0", {.used = without_narrow(kAll)});
  for (const CacheType type : {CacheType::kF16, CacheType::kBF16, CacheType::kQ8_0, CacheType::kQ5_1}) {
    const auto logits = [&](const std::shared_ptr<const Model>& model) {
      Context context(model, {.n_ctx = 128, .k_type = type, .v_type = type});
      std::vector<float> result = test::all_logits(context, tokens, 16);
      context.cache().remove(0, 3, 20);
      EXPECT_TRUE(context.cache().shift(0, 20, -1, -17));
      const std::vector<float> more = test::all_logits(context, std::vector<Token>{9, 4, 7}, 3);
      result.insert(result.end(), more.begin(), more.end());
      return result;
    };
    EXPECT_TRUE(logits(narrow) == logits(wide)) << static_cast<int>(type);
  }
}

TEST(VulkanForms, DevicesReportFeaturesInUse) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  const auto tells = [](const vulkan::Abilities& used) {
    const auto features = test::vulkan_devices({.used = used}).front()->info().features;
    return std::find(features.begin(), features.end(), "8- and 16-bit loads") != features.end();
  };
  EXPECT_FALSE(tells(without_narrow(kAll)));
  if (!tells(kAll)) GTEST_SKIP() << "the driver has no 8- and 16-bit loads";
}

}  // namespace
}  // namespace weft
