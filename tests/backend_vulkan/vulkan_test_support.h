#pragma once
// The Vulkan devices of this machine, opened.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

/// Whether tests try everything: WEFT_FAMILIES=all in the environment, as `make test-vulkan` has it. A driver
/// on the CPU takes its time.
inline bool tries_all() {
  const char* const wish = std::getenv("WEFT_FAMILIES");
  return wish != nullptr && std::string_view(wish) == "all";
}

/// The families of `all` that tests try: some that have all kinds of ops together, or every one.
inline std::vector<const char*> families_on_vulkan(std::span<const char* const> all) {
  static constexpr std::string_view kSome[] = {"bloom",    "deepseek2-lite", "falcon-h1", "gemma3n",
                                               "gpt-oss",  "llama",          "mamba2",    "qwen35",
                                               "qwen3moe", "rwkv7",          "umt5"};
  if (tries_all()) return {all.begin(), all.end()};
  std::vector<const char*> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), [](std::string_view name) {
    return std::find(std::begin(kSome), std::end(kSome), name) != std::end(kSome);
  });
  return some;
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
