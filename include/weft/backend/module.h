// Since 0.1
#pragma once
// Backend modules: shared libraries weft_backend_NAME.so, which load_backends() loads. weft refuses a module
// that was built with other headers. A module exports one function:
//
//   extern "C" __attribute__((visibility("default"))) const weft::ModuleInfo* weft_backend_module() {
//     static const weft::ModuleInfo kModule = {.add = [](weft::Registry& r) { r.add(my_backend()); }};
//     return &kModule;
//   }
//
// Modules are searched for in the folder of the program or library that uses weft, in its subfolder `weft`,
// and in lib/weft. They stay loaded until the process ends.
#include <cstdint>

#include "weft/backend/registry.h"

#pragma GCC visibility push(default)

namespace weft {

/// The version of the module interface: weft/device.h, backend/ and graph/. Modules of another version are
/// refused.
inline constexpr std::uint32_t kModuleVersion = 10;

struct ModuleInfo {
  std::uint32_t version = kModuleVersion;
  /// Sizes of types that the interface passes. They detect other compilers and headers.
  std::uint32_t bytes_of_graph = sizeof(Graph);
  std::uint32_t bytes_of_node = sizeof(Node);
  std::uint32_t bytes_of_device_info = sizeof(DeviceInfo);
  /// Adds the module's backend to a registry. May throw Error if the machine lacks something that it needs.
  void (*add)(Registry& registry) = nullptr;
  /// See weft::init_worker_process (weft/device.h). In a process that serves another one: serves it, with the
  /// registry's devices, until it ends, and returns true. Otherwise returns false at once. Null: this backend
  /// has no such processes.
  bool (*init_worker_process)(const Registry& registry) = nullptr;
};

/// The name and type of the function that a module exports.
inline constexpr const char* kModuleEntry = "weft_backend_module";
using ModuleEntry = const ModuleInfo* (*)();

}  // namespace weft

#pragma GCC visibility pop
