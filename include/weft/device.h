// Since 0.1
#pragma once
// The devices of this machine, and the placement of a model on them.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/language.h"
#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

/// The speed of a device.
struct DeviceSpeed {
  double bytes_per_second = 0.0;  ///< Bytes of weights that decode reads per second.
  /// Floating-point operations per second in matrix products of long prompts; a multiply-add counts as two.
  double flops = 0.0;
  double step_seconds = 0.0;           ///< The fixed cost of a step.
  double copy_bytes_per_second = 0.0;  ///< Copies between host and device memory.
};

struct DeviceInfo {
  std::string name = {};  ///< "cpu", "vulkan0", ...: the name in parameters.
  std::string backend = {};
  std::string description = {};    ///< The processor's name, for display.
  std::uint64_t memory_total = 0;  ///< Bytes.
  std::uint64_t memory_free = 0;   ///< For a CPU, what the process can still get.
  int n_threads = 0;               ///< A CPU's default number of threads. 0 for other devices.
  bool is_async = false;           ///< Whether steps run asynchronously to the host.
  /// Whether it computes on the host's cores: the CPU, and software drivers such as llvmpipe.
  bool on_host_cpu = false;
  std::vector<std::string> features = {};  ///< Instruction sets and hardware features that weft uses.
  /// Estimates of the backend, by which placement compares devices; they are not measured. 0: a usual value
  /// for this kind of device.
  DeviceSpeed speed = {};
  /// The same for one GPU in all backends: its UUID in hexadecimal digits. Empty: unknown.
  std::string uuid = {};
};

/// A set of backends and their devices (weft/backend.h). A program can add its own backends.
class Registry;

/// A registry with the CPU and all backend modules (weft_backend_*.so). Modules are searched for in the
/// folder of the program or library, in its subfolder `weft`, and in `folders`.
std::shared_ptr<Registry> load_backends(std::span<const std::filesystem::path> folders = {});

/// For programs that a launcher (mpirun) starts as several processes, on one machine or more: the first
/// process controls the devices of all. Call it before anything else. In the first process, and without a
/// launcher, it returns false at once. In each other process it serves the first one until that ends, and
/// then returns true: the process should exit. Throws Error kUnsupported if a launcher started several
/// processes and weft has no module for it.
bool init_worker_process();
[[deprecated("use init_worker_process")]] inline bool follow() { return init_worker_process(); }

/// All devices. The first is always the CPU. open_devices() (weft/plan.h) opens them.
std::vector<DeviceInfo> list_devices(const Registry& registry);
std::vector<DeviceInfo> list_devices();
/// Backend modules that were found but cannot be used, and GPUs that are not listed, each with the reason.
std::vector<std::string> problems(const Registry& registry);

// Deprecated names, for one version.
[[deprecated("use load_backends")]] inline std::shared_ptr<Registry> find_backends(
    std::span<const std::filesystem::path> folders = {}) {
  return load_backends(folders);
}
[[deprecated("use list_devices")]] inline std::vector<DeviceInfo> devices(const Registry& registry) {
  return list_devices(registry);
}
[[deprecated("use list_devices")]] inline std::vector<DeviceInfo> devices() { return list_devices(); }

/// A placement rule: it places nodes on `device`. A node is selected if the name of its result, or of one of
/// its weights or states, contains a match of `pattern`. If several pins match, the last one wins.
struct Pin {
  std::string pattern = {};  ///< A regular expression (PCRE2).
  std::string device = {};
};

/// Memory of a device that PlacementParams::fit leaves free, for other models or programs.
struct Margin {
  std::string device = {};  ///< As in PlacementParams::devices. Empty: each of them.
  std::uint64_t bytes = 0;
};

/// How a model is placed on devices. Nodes without a rule are placed where a step is estimated to be fastest.
struct PlacementParams {
  /// Names of devices, as in list_devices(). "NAME=DEVICE" opens DEVICE under the name NAME, also a second
  /// time. The CPU is always added and takes the remaining nodes. Empty: the devices of the pins and, unless
  /// n_layers is 0, all GPUs. If there is no GPU and n_layers is above 0, a software driver is used.
  std::vector<std::string> devices = {};
  /// How many layers, counted from the last, are placed on these devices; the others stay on the CPU. One
  /// more than the model has includes the output head. -1: all that fit.
  int n_layers = -1;
  /// The share of each device in these layers or rows. Empty: by speed if all are CPUs, otherwise by free
  /// memory; equal shares with split_rows.
  std::vector<float> shares = {};
  /// Tensor parallelism: devices share each layer, by attention heads (with their caches) and rows of
  /// matrices, instead of taking whole layers.
  bool split_rows = false;
  /// Whether all experts (MoE) are placed on the CPU.
  bool experts_on_cpu = false;
  std::vector<Pin> pins = {};
  /// Refuse a placement that exceeds the free memory of a device, and choose the rest so that it fits. On the
  /// CPU this is an estimate: pages of files count as free, and other processes change it. If not
  /// everything fits, the expected contexts become shorter (n_ctx_min). Then experts of the first layers stay
  /// on the CPU, unless experts_on_cpu or n_cpu_moe say how many. Then whole layers do if n_layers is -1.
  bool fit = true;
  std::vector<Margin> margins = {};  ///< For `fit`. Margins of the same device add up.
  /// The least n_ctx that `fit` may choose. 0: a given n_ctx is kept, and the default may become 4096.
  int n_ctx_min = 0;
  // The expected contexts, for `fit`:
  int n_ctx = 0;  ///< 0: a context's default.
  int n_sequences = 1;
  int n_ubatch = 512;
  int n_source = 0;  ///< 0: a context's default.
  CacheType k_type = CacheType::kAuto;
  CacheType v_type = CacheType::kAuto;
  int n_outputs = 0;  ///< 0: a context's default.
  int state_rewind = 0;
};

}  // namespace weft

#pragma GCC visibility pop
