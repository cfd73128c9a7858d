// Kernels by themselves, on step tables that change or hold anything, as those of cancelled steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cuda/launch.h"

namespace weft::cuda {
namespace {

template <typename T>
std::uint64_t address(const T& values) {
  return reinterpret_cast<std::uint64_t>(values.data());
}

/// Arguments of a kernel on these tensors, which are numbered in their order.
Arguments arguments_on(const std::vector<std::uint64_t>& addresses, const std::uint32_t* entry) {
  Arguments arguments = {};
  arguments.push.addresses = address(addresses);
  arguments.push.step = reinterpret_cast<std::uint64_t>(entry);
  for (std::uint32_t i = 0; i < addresses.size(); ++i) arguments.push.tensors[i] = i;
  return arguments;
}

TEST(CudaKernels, EndThoughTheirGroupsAreTakenAwayMeanwhile) {
  constexpr std::uint32_t kColumns = 32;
  const std::vector<float> rows(2 * kColumns, 0.0f);
  std::vector<std::uint32_t> results(2 * kColumns, 7);
  // The last result of the first row lies where the number of groups is: it becomes 0, as by a cancellation.
  std::uint32_t* const entry = &results[kColumns - 1];
  const std::uint32_t sizes[] = {1, 1, 1, 2};
  std::copy(std::begin(sizes), std::end(sizes), entry);
  const std::vector<std::uint64_t> addresses = {address(rows), address(results)};
  Arguments arguments = arguments_on(addresses, entry);
  arguments.constants[0] = kColumns;
  ASSERT_EQ(launch_kernel(gpu::Kernel::kHadamard, arguments, {1, 1, 1}, nullptr), 0);
  EXPECT_EQ(results, std::vector<std::uint32_t>(2 * kColumns, 0));
}

TEST(CudaKernels, StayInRangeWhereTilesOfExpertsWereNotMade) {
  constexpr std::uint32_t kRows = 5, kOutputs = 3, kColumns = 32, kExperts = 2;
  const std::vector<float> weights(kExperts * kOutputs * kColumns, 1.0f), x(kRows * kColumns, 1.0f);
  const std::vector<std::int32_t> ids(kRows, 1);
  std::vector<float> results(kRows * kOutputs, 0.0f);
  // Each number is as large as can be.
  const std::vector<std::uint32_t> pairs(kRows, ~0u), tiles(4 * (kRows + 1), ~0u);
  const std::vector<std::uint32_t> entry = {1, 1, 1, kRows};
  const std::vector<std::uint64_t> addresses = {
      address(weights), address(x), 0, address(ids), address(results), address(pairs), address(tiles)};
  Arguments arguments = arguments_on(addresses, entry.data());
  const std::uint32_t constants[] = {0, 64, 32, 64, 1};
  std::copy(std::begin(constants), std::end(constants), arguments.constants);
  arguments.push.params[0] = kOutputs;
  arguments.push.params[1] = kColumns;
  arguments.push.params[2] = kColumns * sizeof(float);
  arguments.push.params[4] = 1;
  arguments.push.params[13] = kExperts;
  ASSERT_EQ(launch_kernel(gpu::Kernel::kMatmulTiles, arguments, {1, 1, 1}, nullptr), 0);
  EXPECT_EQ(results.back(), float{kColumns});
}

}  // namespace
}  // namespace weft::cuda
