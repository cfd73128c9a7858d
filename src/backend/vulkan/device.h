#pragma once
// GPUs of any vendor, and CPUs with a Vulkan driver, as devices.
#include <filesystem>
#include <memory>
#include <vector>

#include "backend/device.h"

namespace weft::vulkan {

struct VulkanOptions {
  std::filesystem::path pipeline_cache;  ///< A file that keeps compiled shaders between runs. Empty: none.
  bool cpu_drivers = true;  ///< Also drivers that compute on the CPU (lavapipe), after all others.
  int times = 1;            ///< Opens each so often under other names, to try out several devices.
  bool staging =
      false;  ///< Copies as for memory that the host cannot map; for tests on machines where it can.
  int launches_per_piece = 64;    ///< A plan's first step is handed over in pieces of so many. 0: whole.
  bool record_each_step = false;  ///< Records commands anew each step, to compare with.
};

/// Devices that weft can use, discrete GPUs first: "vulkan0", "vulkan1", ... Empty where there is no Vulkan.
/// A device that cannot be opened is left out.
std::vector<std::shared_ptr<Device>> make_devices(const VulkanOptions& options = {});

}  // namespace weft::vulkan
