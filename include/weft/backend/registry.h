// Since 0.1
#pragma once
// The registry of backends and their devices. A registry is a value without global state. load_backends()
// makes one with the CPU and all modules. A program may add its own backends, then opens devices
// (open_devices) or loads models (ModelParams::registry) with it.
//
// A module (module.h) that cannot be loaded, for example because a driver is missing, is only listed in
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

/// Where a device may cache packed weights for the next start.
struct KeptWeights {
  std::filesystem::path folder = {};  ///< Empty: no cache.
  std::uint64_t max_bytes = 0;        ///< The most bytes of the folder.
  std::string model = {};             ///< The model's name, for display.
  Hash128 key = {};                   ///< Identifies the model; made from samples of its weights.
  Hash128 identity = {};              ///< Identifies the model's files: unchanged files have the same one.
  std::uint64_t n_bytes = 0;          ///< The approximate bytes of the weights.
};

struct OpenOptions {
  std::string name = {};  ///< A name for the opened device. Empty: its listed name.
  /// Host threads for loading, and for plans without CompileOptions::n_threads. 0: the number of cores.
  int n_threads = 0;
  std::string feature = {};  ///< For tests: the best of DeviceInfo::features to use. Empty: all.
  bool repack = true;        ///< See ModelParams::repack.
  KeptWeights kept = {};
  /// A folder in which a device may cache compiled kernels. Empty: none.
  std::filesystem::path compiled = {};
};

/// A backend: a kind of devices. Any thread may use its functions and devices.
struct Backend {
  std::string name;
  /// Lists the available devices, each with a unique name ("vulkan0"). Returns an empty list if there are
  /// none.
  std::function<std::vector<DeviceInfo>()> list;
  /// Opens a device by its listed name. A device that is opened twice has separate tensors. Throws Error.
  std::function<std::shared_ptr<Device>(std::string_view device, const OpenOptions& options)> open;
  /// Whether `list` could find a GPU. It must be fast, whereas `list` may load drivers. Null: yes.
  std::function<bool()> may_find_gpus = nullptr;
  /// Whether it lists a device of this name. It opens none. Null: `list` is called instead.
  std::function<bool(std::string_view device)> has = nullptr;
  /// Why a GPU that the machine seems to have is not listed, for display. Empty: nothing is wrong. Null: it
  /// cannot tell.
  std::function<std::string()> problem = nullptr;
};

/// One thread may change it, or any number of threads may read it.
class Registry {
 public:
  /// Adds a backend, or replaces the one with the same name.
  void add(Backend backend);
  /// Loads a module and adds its backend. Errors are listed in problems().
  void load_module(const std::filesystem::path& path);
  /// Loads all modules in these folders, by name. Missing folders are ignored.
  void load_modules(std::span<const std::filesystem::path> folders);

  /// See weft::init_worker_process (weft/device.h).
  bool init_worker_process() const;

  std::span<const Backend> backends() const { return backends_; }
  std::span<const std::string> problems() const { return problems_; }
  /// Devices of all backends, in the order in which the backends were added.
  std::vector<DeviceInfo> devices() const;
  /// Devices that do not compute on the host's cores. A GPU of several backends is listed once, by the first.
  /// Fast if no backend could have one.
  std::vector<DeviceInfo> gpus() const;
  /// Opens a device by its listed name. Throws Error kNotFound with the available names.
  std::shared_ptr<Device> open(std::string_view device, const OpenOptions& options = {}) const;

 private:
  std::vector<Backend> backends_;
  std::vector<std::string> problems_;
  std::vector<bool (*)(const Registry&)> worker_inits_;  // Of modules.
};

}  // namespace weft

#pragma GCC visibility pop
