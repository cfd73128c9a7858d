// Products by cooperative matrices have the bits of those without: sums of integers are exact.
#include <cmath>

#include "tensor/codec.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

bool multiplies_matrices(const Device& device) {
  const auto& features = device.info().features;
  return std::any_of(features.begin(), features.end(),
                     [](const std::string& feature) { return feature.starts_with("matrices of "); });
}

struct Sizes {
  std::int64_t outputs = 0, rows = 0, columns = 0, experts = 0;  ///< With experts, each row has two.
};

/// Nothing where the device does not know the type.
std::vector<float> product(Device& device, DType dtype, const Sizes& sizes) {
  const std::int64_t n_weights = std::max<std::int64_t>(sizes.experts, 1) * sizes.outputs, n_ids = 2;
  Graph graph;
  const ValueId x = graph.add_input("x", DType::kF32, {sizes.rows, sizes.columns});
  ValueId w = kNoValue, ids = kNoValue, y = kNoValue;
  if (sizes.experts > 0) {
    w = graph.add_weight("w", dtype, {sizes.experts, sizes.outputs, sizes.columns});
    ids = graph.add_input("ids", DType::kI32, {sizes.rows, n_ids});
    y = graph.add(ops::MatmulExperts{}, {w, x, ids}, "y");
  } else {
    w = graph.add_weight("w", dtype, {sizes.outputs, sizes.columns});
    y = graph.add(ops::Matmul{}, {w, x}, "y");
  }
  graph.add_output(y);
  for (const Node& node : graph.nodes())
    if (!device.supports(graph, node)) return {};

  const std::size_t n = row_bytes(dtype, sizes.columns);
  std::vector<std::byte> bytes(n * static_cast<std::size_t>(n_weights));
  std::vector<float> values(static_cast<std::size_t>(sizes.columns));
  constexpr std::int64_t kDifferent = 7;  // Types that are searched for take their time.
  for (std::int64_t r = 0; r < n_weights; ++r) {
    std::byte* const to = bytes.data() + static_cast<std::size_t>(r) * n;
    if (r >= kDifferent) {
      std::copy_n(bytes.data() + static_cast<std::size_t>(r % kDifferent) * n, n, to);
      continue;
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] =
          std::sin(static_cast<float>(i * i + 7 * static_cast<std::size_t>(r))) * static_cast<float>(r + 1);
    pack_row(dtype, values, to);
  }
  const auto weight = device.create_weight(dtype, graph.value(w).shape.dims({}), {bytes, {}});
  const auto in = device.create_host_tensor(DType::kF32, graph.value(x).shape.dims({}));
  const auto out = device.create_host_tensor(DType::kF32, graph.value(y).shape.dims({}));
  for (std::size_t i = 0; i < in->host().size() / sizeof(float); ++i)
    reinterpret_cast<float*>(in->host().data())[i] = std::cos(static_cast<float>(i) * 0.61f) * 2.0f;
  Bindings bindings(graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(w)] = weight.get();
  bindings[static_cast<std::size_t>(x)] = in.get();
  bindings[static_cast<std::size_t>(y)] = out.get();
  std::unique_ptr<DeviceTensor> chosen;
  if (sizes.experts > 0) {
    chosen = device.create_host_tensor(DType::kI32, graph.value(ids).shape.dims({}));
    for (std::int64_t i = 0; i < sizes.rows * n_ids; ++i)
      reinterpret_cast<std::int32_t*>(chosen->host().data())[i] =
          static_cast<std::int32_t>((i * 5 + i / n_ids) % sizes.experts);
    bindings[static_cast<std::size_t>(ids)] = chosen.get();
  }
  const auto plan = device.compile(graph, bindings, {});
  const bool by_matrices = plan->describe().find("matmul_cooperative") != std::string::npos;
  if (sizes.rows > 8) {
    EXPECT_EQ(by_matrices, multiplies_matrices(device));
  }
  plan->submit({}, bindings, {});
  plan->wait();
  const auto* const floats = reinterpret_cast<const float*>(out->host().data());
  return {floats, floats + out->host().size() / sizeof(float)};
}

class VulkanMatrices : public testing::Test {
 protected:
  void SetUp() override {
    if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
    with_ = test::vulkan_devices().front();
    if (!multiplies_matrices(*with_)) GTEST_SKIP() << "the driver has no cooperative matrices of bytes";
    without_ = test::vulkan_devices({.used = {.matrices = false}}).front();
    ASSERT_FALSE(multiplies_matrices(*without_));
  }
  void compare(DType dtype, const Sizes& sizes) const {
    const std::vector<float> found = product(*with_, dtype, sizes);
    EXPECT_TRUE(found == product(*without_, dtype, sizes))
        << info(dtype).name << ", " << sizes.outputs << " by " << sizes.rows << " by " << sizes.columns;
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](float y) { return y != 0.0f; }))
        << info(dtype).name;
  }
  std::shared_ptr<Device> with_, without_;
};

TEST_F(VulkanMatrices, GiveTheBitsOfEveryType) {
  int n_types = 0;
  for (const DTypeInfo& type : all_dtypes()) {
    if (type.kind != DTypeKind::kQuantised || product(*without_, type.type, {3, 1, 512}).empty()) continue;
    compare(type.type, {.outputs = 70, .rows = 37, .columns = 1024 + 256});
    ++n_types;
  }
  EXPECT_EQ(n_types, 24);
}

TEST_F(VulkanMatrices, GiveTheBitsOfEveryTile) {
  for (const std::int64_t outputs : {1, 64, 1100})
    for (const std::int64_t rows : {9, 32, 70}) compare(DType::kQ6_K, {outputs, rows, 256});
  compare(DType::kQ8_0, {.outputs = 65, .rows = 33, .columns = 32});
}

TEST_F(VulkanMatrices, GiveTheBitsOfExperts) {
  compare(DType::kQ4_K, {.outputs = 70, .rows = 40, .columns = 256, .experts = 5});
  compare(DType::kQ4_0, {.outputs = 33, .rows = 12, .columns = 96, .experts = 3});
}

}  // namespace
}  // namespace weft
