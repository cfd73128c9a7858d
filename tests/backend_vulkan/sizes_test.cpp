// Sizes of tiles and workgroups, of devices that are made up as drivers describe them.
#include "backend/gpu/sizes.h"

#include <gtest/gtest.h>

namespace weft::gpu {
namespace {

struct MadeUp {
  const char* name;
  DeviceLimits limits;
  Tile many;
  std::optional<MatrixShape> matrix;
};

const MadeUp kDevices[] = {
    {"the least that Vulkan allows", {}, {64, 32}, std::nullopt},
    {"a GPU of NVIDIA's",
     {.subgroup = 32,
      .shared_bytes = 48 << 10,
      .threads = 1024,
      .subgroups = 32,
      .matrices = {{16, 8, 32}, {16, 16, 32}}},
     {128, 64},
     MatrixShape{16, 16, 32}},
    {"one of AMD's",
     {.subgroup = 64, .shared_bytes = 64 << 10, .threads = 1024, .subgroups = 16, .matrices = {{16, 16, 16}}},
     {128, 64},
     MatrixShape{16, 16, 16}},
    {"one of Intel's",
     {.subgroup = 16, .shared_bytes = 64 << 10, .threads = 1024, .subgroups = 64, .matrices = {{8, 16, 32}}},
     {128, 64},
     MatrixShape{8, 16, 32}},
    {"a phone's", {.subgroup = 16, .shared_bytes = 32 << 10, .threads = 128}, {64, 32}, std::nullopt},
    {"a driver on the processor",
     {.subgroup = 8, .shared_bytes = 32 << 10, .threads = 1024, .subgroups = 32, .matrices = {{8, 8, 8}}},
     {128, 64},
     MatrixShape{8, 8, 8}},
    {"one whose workgroups are too small for its matrices",
     {.subgroup = 64, .shared_bytes = 32 << 10, .threads = 256, .subgroups = 16, .matrices = {{16, 16, 32}}},
     {128, 64},
     std::nullopt},
    {"one whose workgroups have too few subgroups",
     {.subgroup = 32, .shared_bytes = 48 << 10, .threads = 1024, .subgroups = 4, .matrices = {{16, 16, 32}}},
     {128, 64},
     std::nullopt},
    {"one whose matrices do not make whole tiles or blocks",
     {.subgroup = 32,
      .shared_bytes = 48 << 10,
      .threads = 1024,
      .subgroups = 32,
      .matrices = {{24, 8, 32}, {16, 16, 64}, {16, 1, 32}}},
     {128, 64},
     std::nullopt},
    {"one whose tiles would have more rows than threads",
     {.subgroup = 8, .shared_bytes = 48 << 10, .threads = 1024, .subgroups = 64, .matrices = {{16, 16, 32}}},
     {128, 64},
     std::nullopt},
    {"one whose products are too small for a subgroup",
     {.subgroup = 128, .shared_bytes = 48 << 10, .threads = 1024, .subgroups = 8, .matrices = {{8, 8, 32}}},
     {128, 64},
     std::nullopt},
};

TEST(VulkanSizes, FitDeviceLimits) {
  for (const MadeUp& device : kDevices) {
    const Sizes sizes = sizes_of(device.limits);
    EXPECT_EQ(sizes.many_tile, device.many) << device.name;
    EXPECT_EQ(sizes.matrix, device.matrix) << device.name;
    EXPECT_LE(sizes.few_tile.rows, sizes.many_tile.rows) << device.name;
    EXPECT_LE(tile_threads(sizes.many_tile), device.limits.threads) << device.name;
    EXPECT_LE(sizes.best_threads, device.limits.threads) << device.name;
    if (!sizes.matrix.has_value()) continue;
    for (const Tile& tile :
         {sizes.few_tile, sizes.many_tile, Tile{sizes.narrow_outputs, sizes.many_tile.rows}}) {
      const std::uint32_t threads = matrix_threads(tile, *sizes.matrix, sizes.subgroup);
      EXPECT_GT(threads, 0u) << device.name;
      EXPECT_EQ(threads % sizes.subgroup, 0u) << device.name;
      EXPECT_LE(threads, device.limits.threads) << device.name;
    }
  }
}

TEST(VulkanSizes, SubgroupsOfMatricesMakeWholeTiles) {
  EXPECT_EQ(matrix_threads({128, 64}, {16, 16, 32}, 32), 256u);
  EXPECT_EQ(matrix_threads({64, 32}, {8, 8, 8}, 8), 64u);
  EXPECT_EQ(matrix_threads({128, 64}, {24, 16, 32}, 32), 0u);
}

}  // namespace
}  // namespace weft::gpu
