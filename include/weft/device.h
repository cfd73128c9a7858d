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

struct DeviceInfo {
  std::string name;  ///< "cpu", "vulkan0", ... as options name it.
  std::string backend;
  std::string description;         ///< For people: the processor's name.
  std::uint64_t memory_total = 0;  ///< Bytes.
  std::uint64_t memory_free = 0;
  int n_threads = 0;                  ///< Of a CPU: how many it uses by default. 0 elsewhere.
  bool beside_host = false;           ///< Steps run beside the host, which goes on meanwhile.
  bool on_host_cpu = false;           ///< It computes with the host's cores: the CPU, and drivers that do.
  std::vector<std::string> features;  ///< Instruction sets and abilities that weft uses here.
};

/// Backends and their devices (src/backend/registry.h). A program that brings a backend of its own adds it
/// there.
class Registry;

/// The CPU and the backend modules (weft_backend_*.so) beside the program or library, in its folder `weft`,
/// and in `folders`.
std::shared_ptr<Registry> find_backends(std::span<const std::filesystem::path> folders = {});

/// Never empty: the CPU is always there, and stands first.
std::vector<DeviceInfo> devices(const Registry& registry);
std::vector<DeviceInfo> devices();
/// Modules that were found and are of no use here, with the reason.
std::vector<std::string> problems(const Registry& registry);

/// Everything whose name the pattern is found in (a weight or state of the file or graph, or what a node
/// makes) is placed on the device. Of several that fit the last one holds.
struct Pin {
  std::string pattern;  ///< A regular expression (PCRE2).
  std::string device;
};

/// How a model is spread over devices. What is left open is placed where a step costs least.
struct PlacementParams {
  /// Names of devices as `devices` lists them; NAME=DEVICE opens one (once more) under another name. The CPU
  /// serves for the rest, named or not. Empty: all GPUs, unless n_layers is 0; for want of one, and where
  /// n_layers asks for layers, a driver that computes on the CPU; and what pins name.
  std::vector<std::string> devices;
  /// Layers, from the last, that go to those devices; one more than there are takes the output too. -1: as
  /// many as fit.
  int n_layers = -1;
  std::vector<float> shares;  ///< Of those layers, by named device. Empty: as their free memory.
  /// Matrices are cut by their rows, in these shares, instead of layers.
  bool split_rows = false;
  bool experts_on_cpu = false;
  std::vector<Pin> pins;
  /// Refuse what does not fit into a device's free memory, and find n_layers by it.
  bool fit = true;
  // What is expected of contexts, for the fit.
  int n_ctx = 0;  ///< 0: as a context's default.
  int n_sequences = 1;
  int n_ubatch = 512;
};

}  // namespace weft

#pragma GCC visibility pop
