#pragma once
// The Vulkan devices of this machine, opened.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/device.h"
#include "backend/vulkan/device.h"
#include "weft/model.h"

namespace weft::test {

/// NMSE between devices for real models: of K-quants, the CPU rounds activations in groups of 128 and GPUs in
/// groups of 32.
inline constexpr double kNearReal = 3e-3;
inline constexpr const char* kNoVulkan =
    "no Vulkan device (Debian: mesa-vulkan-drivers brings one on the CPU)";

inline std::vector<std::shared_ptr<Device>> vulkan_devices(const vulkan::VulkanOptions& options = {},
                                                           const OpenOptions& open = {}) {
  std::vector<std::shared_ptr<Device>> devices;
  const Backend backend = vulkan::backend(options);
  for (const DeviceInfo& info : backend.list()) devices.push_back(backend.open(info.name, open));
  return devices;
}

/// The CPU and Vulkan, without looking for modules.
inline std::shared_ptr<const Registry> registry_with_vulkan(const vulkan::VulkanOptions& options = {}) {
  auto registry = std::make_shared<Registry>();
  registry->add(cpu::backend());
  registry->add(vulkan::backend(options));
  return registry;
}

/// A model with all its layers on a Vulkan device.
inline std::shared_ptr<const Model> load_on_vulkan(const std::filesystem::path& path,
                                                   const std::string& device = "vulkan0",
                                                   const vulkan::VulkanOptions& options = {}) {
  ModelParams params;
  params.placement.devices = {device};
  params.registry = registry_with_vulkan(options);
  return Model::load(path, params);
}

}  // namespace weft::test
