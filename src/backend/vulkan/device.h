#pragma once
// GPUs of any vendor, and CPUs with a Vulkan driver, as devices.
#include "backend/vulkan/abilities.h"
#include "weft/backend/registry.h"

namespace weft::vulkan {

struct VulkanOptions {
  bool staging =
      false;  ///< Copies as for memory that the host cannot map; for tests on machines where it can.
  int first_piece = 16;           ///< Launches of a plan that are handed over first; see PlanOptions.
  Abilities used = {};            ///< Of those that a device has; for tests of the forms for others.
  bool record_each_step = false;  ///< Records commands anew each step, to compare with.
};

/// Devices that weft can use, discrete GPUs first and drivers that compute on the CPU last: "vulkan0",
/// "vulkan1", ... None where there is no Vulkan. Compiled shaders are kept in OpenOptions::compiled.
Backend backend(const VulkanOptions& options = {});

}  // namespace weft::vulkan
