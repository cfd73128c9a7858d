#pragma once
// Shaders and the pipelines made of them: one per shader and its constants, made once, kept on disk between
// runs.
#include <vulkan/vulkan.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/vulkan/gpu.h"

namespace weft::vulkan {

enum class Shader : std::uint8_t {
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
inline constexpr int kNumShaders = 32;
const char* name(Shader shader);

/// A launch's parameters for its shader at recording time; as in shaders/common.glsl. Within the 128 bytes
/// that every driver takes.
struct Push {
  std::uint64_t addresses = 0;
  std::uint64_t step = 0;
  std::uint32_t tensors[12] = {};
  std::uint32_t params[14] = {};
  std::uint64_t grids = 0;
};
static_assert(sizeof(Push) == 128);

/// Thread-safe.
class Pipelines {
 public:
  /// `cache_file` may be empty. A file that is missing or of another driver is as good as none.
  Pipelines(Gpu& gpu, std::filesystem::path cache_file);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  VkPipelineLayout layout() const { return layout_; }
  /// With the values of the shader's constants 0, 1, ...
  VkPipeline get(Shader shader, const std::vector<std::uint32_t>& constants);
  /// The driver compiler's report on such a pipeline, which is made again for this; see device.h.
  std::vector<std::pair<std::string, double>> statistics(Shader shader,
                                                         const std::vector<std::uint32_t>& constants);
  /// The address of the table of grids (grids.h), which is copied to the device at the first call.
  VkDeviceAddress grids();
  /// Writes the cache file, if pipelines were made since. A failure is not an error.
  void save() noexcept;

 private:
  VkShaderModule module(Shader shader);
  VkPipeline make(Shader shader, const std::vector<std::uint32_t>& constants, VkPipelineCreateFlags flags,
                  VkPipelineCache cache);

  Gpu& gpu_;
  std::filesystem::path cache_file_;
  std::mutex mutex_;
  bool changed_ = false;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  VkShaderModule modules_[kNumShaders] = {};
  std::unique_ptr<Buffer> grids_;
  std::map<std::pair<Shader, std::vector<std::uint32_t>>, VkPipeline> pipelines_;
};

}  // namespace weft::vulkan
