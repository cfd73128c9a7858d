// Since 0.1
#pragma once
// The registry: which backends there are and which devices they offer. A registry is a value without global
// state. A program with a backend of its own adds it to a registry; find_backends returns one with the CPU.
// Then it opens devices (find_devices) or loads models with this registry.
//
// Backends may also come as modules, shared libraries named weft_backend_NAME.so that export
// `weft_backend_module` (module.h). One that cannot be loaded, because a driver is missing, is a problem to
// report and nothing more.
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
  std::uint64_t max_bytes = 0;        ///< Of the folder.
  std::string model = {};             ///< What people call it.
  Hash128 key = {};                   ///< Tells models apart; samples of their weights will do.
  Hash128 identity = {};              ///< Identity of the model's files: the same if they are unchanged.
  std::uint64_t n_bytes = 0;          ///< About what the weights take.
};

struct OpenOptions {
  std::string name = {};  ///< Of the device once it is open. Empty: the name that it is listed with.
  int n_threads = 0;      ///< Host threads for loading, and for plans that don't say. 0: the number of cores.
  std::string feature =
      {};  ///< The best of the device's features to use, for tests. Empty: the best there is.
  bool repack =
      true;  ///< Put weights into the order that kernels read; otherwise use them as they lie, slowly.
  KeptWeights kept = {};
  std::filesystem::path compiled = {};  ///< A folder where a device may keep compiled kernels. Empty: none.
};

/// A kind of devices. What it gives and calls may be used from any thread.
struct Backend {
  std::string name;
  /// The devices there are, each with a name of its own ("vulkan0"). Does not throw where there are none.
  std::function<std::vector<DeviceInfo>()> list;
  /// Opens a device by its listed name, with tensors of its own. Throws Error.
  std::function<std::shared_ptr<Device>(std::string_view device, const OpenOptions& options)> open;
  /// Whether `list` could find a GPU. Returns at once, whereas listing may load drivers. Null: it could.
  std::function<bool()> may_find_gpus = nullptr;
  /// Whether it lists a device of that name, found out without opening any. Null: `list` is asked.
  std::function<bool(std::string_view device)> has = nullptr;
};

/// One thread may change it, or any number of threads may read it.
class Registry {
 public:
  /// A backend of a name that is there takes its place.
  void add(Backend backend);
  /// Adds the backend of a module. What is wrong with it is noted in problems().
  void load_module(const std::filesystem::path& path);
  /// All modules of the folders that exist, in the order of their names.
  void load_modules(std::span<const std::filesystem::path> folders);

  /// See weft::follow (weft/device.h).
  bool follow() const;

  std::span<const Backend> backends() const { return backends_; }
  std::span<const std::string> problems() const { return problems_; }
  /// Devices of all backends, in the order in which those were added.
  std::vector<DeviceInfo> devices() const;
  /// Those of them that do not compute with the host's cores. At next to no cost where there can be none.
  std::vector<DeviceInfo> gpus() const;
  /// Throws Error kNotFound that names the devices there are.
  std::shared_ptr<Device> open(std::string_view device, const OpenOptions& options = {}) const;

 private:
  std::vector<Backend> backends_;
  std::vector<std::string> problems_;
  std::vector<bool (*)(const Registry&)> follows_;  // Of modules.
};

}  // namespace weft

#pragma GCC visibility pop
