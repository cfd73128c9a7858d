// Since 0.1
#pragma once
// The devices of this machine, and the placement of a model on them.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

/// The speed of a device.
struct DeviceSpeed {
  double bytes_per_second = 0.0;  ///< Weights read per second in decode.
  double flops = 0.0;         ///< Multiplications and additions per second in matrix products of many tokens.
  double step_seconds = 0.0;  ///< The time of an almost empty step.
  double copy_bytes_per_second = 0.0;  ///< Between the host's memory and the device's.
};

struct DeviceInfo {
  std::string name = {};  ///< "cpu", "vulkan0", ... as options name it.
  std::string backend = {};
  std::string description = {};    ///< For people: the processor's name.
  std::uint64_t memory_total = 0;  ///< Bytes.
  std::uint64_t memory_free = 0;
  int n_threads = 0;         ///< A CPU's default number of threads. 0 for other devices.
  bool beside_host = false;  ///< Steps run asynchronously to the host.
  bool on_host_cpu = false;  ///< It computes with the host's cores: the CPU, and drivers that do.
  std::vector<std::string> features = {};  ///< Instruction sets and abilities that weft uses here.
  /// As the backend knows it, not measured. Placement weighs devices by it. 0: the usual speed of its kind.
  DeviceSpeed speed = {};
};

/// Backends and their devices (weft/backend.h). A program with a backend of its own adds it to a registry.
class Registry;

/// The CPU and the backend modules (weft_backend_*.so) in the folder of the program or library, in its
/// subfolder `weft`, and in `folders`.
std::shared_ptr<Registry> find_backends(std::span<const std::filesystem::path> folders = {});

/// For programs that a launcher (mpirun) starts several times, on one machine or many. The first process
/// leads and has the devices of all. Such a program calls this before anything else. In the first process,
/// and without a launcher, it returns false at once. In each other process it computes for the first one
/// until that ends, and then returns true. Throws Error.
bool follow();

/// Never empty: the CPU is always the first.
std::vector<DeviceInfo> devices(const Registry& registry);
std::vector<DeviceInfo> devices();
/// Modules that were found but cannot be used here, each with the reason.
std::vector<std::string> problems(const Registry& registry);

/// Places weights, states and results of nodes whose names contain the pattern on the device. If several pins
/// match, the last one wins.
struct Pin {
  std::string pattern = {};  ///< A regular expression (PCRE2).
  std::string device = {};
};

/// The placement of a model on devices. Nodes without a rule are placed where a step costs least.
struct PlacementParams {
  /// Names of devices as `devices` lists them. NAME=DEVICE opens a device under another name, also a second
  /// time. The CPU is always added and takes the rest. Empty: all GPUs, unless n_layers is 0, and the devices
  /// of pins. Without a GPU, if n_layers asks for layers, a driver that computes on the CPU.
  std::vector<std::string> devices = {};
  /// The number of layers, counted from the last, on these devices. One more than the model has: the output
  /// too. -1: all that fit.
  int n_layers = -1;
  std::vector<float> shares =
      {};  ///< Each device's share. Empty: by speed (CPUs) or memory; equal shares of rows.
  /// Divides heads, with their caches, and rows of matrices instead of layers, by the same shares.
  bool split_rows = false;
  bool experts_on_cpu = false;
  std::vector<Pin> pins = {};
  /// Refuse a placement that exceeds a device's free memory. That also decides n_layers where it is -1.
  bool fit = true;
  // The expected contexts, for `fit`.
  int n_ctx = 0;  ///< 0: a context's default.
  int n_sequences = 1;
  int n_ubatch = 512;
  int n_source = 0;  ///< 0: a context's default.
};

}  // namespace weft

#pragma GCC visibility pop
