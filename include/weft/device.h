// Since 0.1
#pragma once
// The devices that this machine offers, and how a model is spread over them.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

/// How fast a device is.
struct DeviceSpeed {
  double bytes_per_second = 0.0;  ///< Of weights streamed through, one token at a time.
  double flops = 0.0;             ///< Multiplications and additions of products of many tokens, per second.
  double step_seconds = 0.0;      ///< Of a step that does next to nothing.
  double copy_bytes_per_second = 0.0;  ///< Between the host's memory and the device's.
};

struct DeviceInfo {
  std::string name = {};  ///< "cpu", "vulkan0", ... as options name it.
  std::string backend = {};
  std::string description = {};    ///< For people: the processor's name.
  std::uint64_t memory_total = 0;  ///< Bytes.
  std::uint64_t memory_free = 0;
  int n_threads = 0;         ///< Of a CPU: how many it uses by default. 0 elsewhere.
  bool beside_host = false;  ///< Steps run beside the host, which goes on meanwhile.
  bool on_host_cpu = false;  ///< It computes with the host's cores: the CPU, and drivers that do.
  std::vector<std::string> features = {};  ///< Instruction sets and abilities that weft uses here.
  /// What the backend knows of it, not measured: placement weighs devices by it. 0: as usual for its kind.
  DeviceSpeed speed = {};
};

/// Backends and their devices (weft/backend.h). A program with a backend of its own adds it to a registry.
class Registry;

/// The CPU and the backend modules (weft_backend_*.so) beside the program or library, in its folder `weft`,
/// and in `folders`.
std::shared_ptr<Registry> find_backends(std::span<const std::filesystem::path> folders = {});

/// A launcher (mpirun) starts a program several times, on one machine or many, and the first process leads: its
/// devices are those of all. Programs that are to be started so call this before anything else: in each of the
/// other processes it computes for the first one until that ends, and returns true. It returns false at once in
/// the first one, and where no launcher is. Throws Error.
bool follow();

/// Never empty: the CPU is always there, and stands first.
std::vector<DeviceInfo> devices(const Registry& registry);
std::vector<DeviceInfo> devices();
/// Modules that were found but cannot be used here, each with the reason.
std::vector<std::string> problems(const Registry& registry);

/// Places on the device whatever has a name in which the pattern is found: weights, states, results of nodes.
/// Of several pins that match the last one wins.
struct Pin {
  std::string pattern = {};  ///< A regular expression (PCRE2).
  std::string device = {};
};

/// How a model is spread over devices. What is left open is placed where a step costs least.
struct PlacementParams {
  /// Names of devices as `devices` lists them; NAME=DEVICE opens a device under another name, also once more.
  /// The CPU is always added, for what the others leave. Empty: all GPUs, unless n_layers is 0, and the
  /// devices of pins; where there is no GPU and n_layers asks for layers, a driver that computes on the CPU.
  std::vector<std::string> devices = {};
  /// How many layers, counted from the last, go to those devices. One more than the model has: the output
  /// too. -1: as many as fit.
  int n_layers = -1;
  std::vector<float> shares = {};  ///< Parts of them. Empty: by speed (CPUs) or memory; of rows, equal ones.
  /// Not layers but heads, with their caches, and the rows of matrices are divided, by the same shares.
  bool split_rows = false;
  bool experts_on_cpu = false;
  std::vector<Pin> pins = {};
  /// Refuse what does not fit into a device's free memory, which also decides n_layers where it is -1.
  bool fit = true;
  // What is expected of contexts, for the fit.
  int n_ctx = 0;  ///< 0: as a context's default.
  int n_sequences = 1;
  int n_ubatch = 512;
  int n_source = 0;  ///< 0: as a context's default.
};

}  // namespace weft

#pragma GCC visibility pop
