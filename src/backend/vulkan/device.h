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
  int first_piece = 16;           ///< Launches of a plan that are submitted first; see PlanOptions.
  Abilities used = {};            ///< The used ones of the device's abilities; for tests of other forms.
  bool record_each_step = false;  ///< Records commands again in each step, for comparison.
  bool statistics = false;        ///< Enables shader_statistics().
};

/// The driver compiler's report on a shader: registers, shared memory, instructions, by its own names.
struct ShaderStatistics {
  std::string shader;  ///< Its name and its constants.
  std::vector<std::pair<std::string, double>> numbers;
};
/// The statistics of each shader of a plan of that graph, which is compiled for this. `device` is one of this
/// backend's. Empty if the driver reports nothing, or VulkanOptions::statistics is off.
std::vector<ShaderStatistics> shader_statistics(Device& device, const Graph& graph);

/// Devices that weft can use, discrete GPUs first and drivers that compute on the CPU last: "vulkan0",
/// "vulkan1", ... None where there is no Vulkan. Compiled shaders are kept in OpenOptions::compiled.
Backend backend(const VulkanOptions& options = {});

}  // namespace weft::vulkan
