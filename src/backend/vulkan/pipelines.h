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

#include "backend/gpu/kernel.h"
#include "backend/vulkan/gpu.h"

namespace weft::vulkan {

using gpu::Kernel;
using gpu::Push;

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
  VkPipeline get(Kernel kernel, const std::vector<std::uint32_t>& constants);
  /// The driver compiler's report on such a pipeline, which is made again for this; see device.h.
  std::vector<std::pair<std::string, double>> statistics(Kernel kernel,
                                                         const std::vector<std::uint32_t>& constants);
  /// The address of the table of grids (grids.h), which is copied to the device at the first call.
  VkDeviceAddress grids();
  /// Writes the cache file, if pipelines were made since. A failure is not an error.
  void save() noexcept;

 private:
  VkShaderModule module(Kernel kernel);
  VkPipeline make(Kernel kernel, const std::vector<std::uint32_t>& constants, VkPipelineCreateFlags flags,
                  VkPipelineCache cache);

  Gpu& gpu_;
  std::filesystem::path cache_file_;
  std::mutex mutex_;
  bool changed_ = false;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  VkShaderModule modules_[gpu::kNumKernels] = {};
  std::unique_ptr<Buffer> grids_;
  std::map<std::pair<Kernel, std::vector<std::uint32_t>>, VkPipeline> pipelines_;
};

}  // namespace weft::vulkan
