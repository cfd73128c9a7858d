#pragma once
// The devices that a model is opened on.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/backend/registry.h"
#include "weft/device.h"

namespace weft::exec {

/// The CPU's name in every registry.
inline constexpr std::string_view kHostDevice = "cpu";

/// Opened devices. One of them is the CPU: it takes what no other does.
struct DeviceSet {
  std::vector<std::shared_ptr<Device>> devices;
  int host = 0;  ///< The CPU's place.
  /// Devices that layers go to, in the user's order. The CPU is among them only if it was named together with
  /// other CPUs and without a number of layers.
  std::vector<int> named;

  int size() const { return static_cast<int>(devices.size()); }
  std::vector<Device*> pointers() const;
  std::vector<bool> is_async() const;  ///< By device.
  bool all_named_are_cpus() const;
  /// The device with that name. Throws Error kNotFound that lists the names there are.
  int find(const std::string& name) const;
};

/// Opens the devices that `params` names, in that order, and the CPU last where it is not among them. Throws
/// Error: kInvalidArgument where a name comes twice, and what Registry::open throws.
DeviceSet open_devices(const Registry& registry, const PlacementParams& params, const OpenOptions& options);

}  // namespace weft::exec
