// Since 0.1
#pragma once
// The export of a backend module, and the check that module and program were built from the same contract.
//
// A module is a shared library weft_backend_NAME.so with one function:
//
//   extern "C" __attribute__((visibility("default"))) const weft::ModuleInfo* weft_backend_module() {
//     static const weft::ModuleInfo kModule = {.add = [](weft::Registry& r) { r.add(my_backend()); }};
//     return &kModule;
//   }
//
// It is in the folder of the program or library that uses weft, in the subfolder `weft` or in lib/weft
// (find_backends). Modules stay loaded until the process ends.
#include <cstdint>

#include "weft/backend/registry.h"

#pragma GCC visibility push(default)

namespace weft {

/// Counts the changes of weft/device.h, backend/ and graph/ that modules cannot live with.
inline constexpr std::uint32_t kModuleVersion = 8;

struct ModuleInfo {
  std::uint32_t version = kModuleVersion;
  /// Sizes of types that cross the boundary. They differ with other compilers or headers.
  std::uint32_t bytes_of_graph = sizeof(Graph);
  std::uint32_t bytes_of_node = sizeof(Node);
  std::uint32_t bytes_of_device_info = sizeof(DeviceInfo);
  /// Adds the module's backend. May throw Error if the machine lacks something that it needs.
  void (*add)(Registry& registry) = nullptr;
  /// In a process that another one leads: computes for that one, with the registry's devices, until it ends,
  /// and returns true. Returns false at once in all others. Null: this backend knows no others.
  bool (*follow)(const Registry& registry) = nullptr;
};

/// The name and type of the one function that a module exports, extern "C".
inline constexpr const char* kModuleEntry = "weft_backend_module";
using ModuleEntry = const ModuleInfo* (*)();

}  // namespace weft

#pragma GCC visibility pop
