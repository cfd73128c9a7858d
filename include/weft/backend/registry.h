// Since 0.1
#pragma once
// The registry: the available backends and their devices. A registry is a value without global state.
// find_backends() returns one with the CPU; a program adds its own backends to it. Then it opens devices
// (find_devices) or loads models with this registry.
//
// Backends may also be modules: shared libraries named weft_backend_NAME.so that export `weft_backend_module`
// (module.h). A module that cannot be loaded, for example because a driver is missing, is only reported in
// problems().
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/backend/device.h"
#include "weft/hash.h"

#pragma GCC visibility push(default)

namespace weft {

/// The cache of packed weights for the next start, if a device uses it.
struct KeptWeights {
  std::filesystem::path folder = {};  ///< Empty: nothing is kept.
  std::uint64_t max_bytes = 0;        ///< Maximum size of the folder.
  std::string model = {};             ///< The model's name, for display.
  Hash128 key = {};                   ///< Identifies the model; a hash of samples of its weights suffices.
  Hash128 identity = {};              ///< Identity of the model's files: the same if they are unchanged.
  std::uint64_t n_bytes = 0;          ///< Approximate size of the weights.
};

struct OpenOptions {
  std::string name = {};  ///< The opened device's name. Empty: its listed name.
  int n_threads = 0;      ///< Host threads for loading, and for plans that don't say. 0: the number of cores.
  std::string feature =
      {};  ///< The best of the device's features to use, for tests. Empty: the best there is.
  bool repack =
      true;  ///< Put weights into the order that kernels read; otherwise use them as they lie, slowly.
  KeptWeights kept = {};
  std::filesystem::path compiled = {};  ///< A folder where a device may keep compiled kernels. Empty: none.
};

/// A kind of devices. Its functions and devices may be used from any thread.
struct Backend {
  std::string name;
  /// The available devices, each with a unique name ("vulkan0"). Does not throw if there are none.
  std::function<std::vector<DeviceInfo>()> list;
  /// Opens a device by its listed name. Each opened device has separate tensors. Throws Error.
  std::function<std::shared_ptr<Device>(std::string_view device, const OpenOptions& options)> open;
  /// Whether `list` could find a GPU. Returns at once, whereas listing may load drivers. Null: it could.
  std::function<bool()> may_find_gpus = nullptr;
  /// Whether it lists a device of this name, without opening any. Null: `list` is called instead.
  std::function<bool(std::string_view device)> has = nullptr;
};

/// One thread may change it, or any number of threads may read it.
class Registry {
 public:
  /// Adds a backend. It replaces one with the same name.
  void add(Backend backend);
  /// Adds the backend of a module. Errors are recorded in problems().
  void load_module(const std::filesystem::path& path);
  /// All modules of the folders that exist, in the order of their names.
  void load_modules(std::span<const std::filesystem::path> folders);

  /// See weft::follow (weft/device.h).
  bool follow() const;

  std::span<const Backend> backends() const { return backends_; }
  std::span<const std::string> problems() const { return problems_; }
  /// Devices of all backends, in the order in which the backends were added.
  std::vector<DeviceInfo> devices() const;
  /// The devices that do not compute with the host's cores. Almost free if there can be none.
  std::vector<DeviceInfo> gpus() const;
  /// Throws Error kNotFound that names the available devices.
  std::shared_ptr<Device> open(std::string_view device, const OpenOptions& options = {}) const;

 private:
  std::vector<Backend> backends_;
  std::vector<std::string> problems_;
  std::vector<bool (*)(const Registry&)> follows_;  // Of modules.
};

}  // namespace weft

#pragma GCC visibility pop
