#pragma once
// GPUs of any vendor, and CPUs with a Vulkan driver, as devices.
#include <string>
#include <utility>
#include <vector>

#include "backend/vulkan/abilities.h"
#include "weft/backend/registry.h"

namespace weft::vulkan {

struct VulkanOptions {
  bool staging =
      false;  ///< Copies as for memory that the host cannot map; for tests on machines where it can.
  int first_piece = 16;           ///< Launches of a plan that are handed over first; see PlanOptions.
  Abilities used = {};            ///< Of those that a device has; for tests of the forms for others.
  bool record_each_step = false;  ///< Records commands anew each step, to compare with.
  bool statistics = false;        ///< Asks drivers for what shader_statistics() tells.
};

/// What the driver's compiler tells of a shader: registers, shared memory, instructions, as it names them.
struct ShaderStatistics {
  std::string shader;  ///< Its name and its constants.
  std::vector<std::pair<std::string, double>> numbers;
};
/// Of each shader that a plan of that graph has, compiled for this. `device` is one of this backend's. None
/// where the driver tells nothing, or was not asked to (VulkanOptions::statistics).
std::vector<ShaderStatistics> shader_statistics(Device& device, const Graph& graph);

/// Devices that weft can use, discrete GPUs first and drivers that compute on the CPU last: "vulkan0",
/// "vulkan1", ... None where there is no Vulkan. Compiled shaders are kept in OpenOptions::compiled.
Backend backend(const VulkanOptions& options = {});

}  // namespace weft::vulkan
