#pragma once
// Times of a plan's launches on the device, for a Profile. While it measures, launches run one after another.
#include <vulkan/vulkan.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/vulkan/gpu.h"
#include "weft/profile.h"

namespace weft::vulkan {

class LaunchTimes {
 public:
  /// Both outlive it. `names`: by launch.
  LaunchTimes(Gpu& gpu, Profile& profile, std::span<const std::string> names);
  ~LaunchTimes();
  LaunchTimes(const LaunchTimes&) = delete;
  LaunchTimes& operator=(const LaunchTimes&) = delete;

  /// Recorded at the beginning of a step of these launches ...
  void begin(VkCommandBuffer commands, std::span<const std::size_t> launches);
  /// ... and after each; `number` counts from 1.
  void stamp(VkCommandBuffer commands, std::size_t number) const;
  /// After the step.
  void add();

 private:
  Gpu& gpu_;
  Profile& profile_;
  std::vector<std::size_t> place_;  // By launch: in Profile::work.
  std::vector<std::size_t> launches_;
  VkQueryPool pool_ = VK_NULL_HANDLE;
};

}  // namespace weft::vulkan
