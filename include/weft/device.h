#pragma once
// The devices that this machine offers.
#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

struct DeviceInfo {
  std::string name;  ///< "cpu", "vulkan0", ... as options name it.
  std::string backend;
  std::string description;         ///< For people: the processor's name.
  std::uint64_t memory_total = 0;  ///< Bytes.
  std::uint64_t memory_free = 0;
  int n_threads = 0;                  ///< Of a CPU: how many it uses by default. 0 elsewhere.
  std::vector<std::string> features;  ///< Instruction sets and abilities that weft uses here.
};

/// Fastest first. Never empty: the CPU is always there.
std::vector<DeviceInfo> devices();

}  // namespace weft

#pragma GCC visibility pop
