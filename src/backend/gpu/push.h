#pragma once
// A launch as its kernel sees it. CUDA's sources include this file, so it is C++17.
#include <cstddef>
#include <cstdint>

namespace weft::gpu {

enum class Kernel : std::uint8_t {
  kAttention,
  kBatchMatmul,
  kBest,
  kBringInputs,
  kDeltaRule,
  kElementwise,
  kExperts,
  kGetRows,
  kHadamard,
  kLogSumExp,
  kMatmul,
  kMatmulCodes,
  kMatmulCooperative,
  kMatmulTiles,
  kMatmulTilesCodes,
  kMergePages,
  kMoveCells,
  kNorm,
  kPad,
  kQuantise,
  kRaggedAttention,
  kRaggedMean,
  kReduce,
  kRope,
  kSelectiveScan,
  kShortConv,
  kSoftmax,
  kSortExperts,
  kStoreCache,
  kStoreTurned,
  kTranspose,
  kUnfold,
};
inline constexpr std::size_t kNumKernels = 32;

/// A launch's parameters that do not change from step to step; as in vulkan/shaders/common.glsl. Within the
/// 128 bytes that every Vulkan driver takes.
struct Push {
  std::uint64_t addresses = 0;     ///< Of the table of tensors.
  std::uint64_t step = 0;          ///< Of this launch's entry in the step table (step_table.h).
  std::uint32_t tensors[12] = {};  ///< Places in the table of tensors.
  std::uint32_t params[14] = {};
  std::uint64_t grids = 0;  ///< Of the table of grids (grids.h).
};
static_assert(sizeof(Push) == 128);

}  // namespace weft::gpu
