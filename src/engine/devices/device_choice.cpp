#include "engine/devices/device_choice.h"

#include <algorithm>

#include "engine/refuse.h"
#include "exec/device_set.h"

namespace weft::engine {

PlacementParams choose_devices(const Registry& registry, PlacementParams params) {
  if (!params.devices.empty()) return params;
  const bool unasked = params.n_layers < 0 && params.pins.empty();
  std::vector<DeviceInfo> others = unasked ? registry.gpus() : registry.devices();
  std::erase_if(others, [](const DeviceInfo& info) { return info.name == exec::kHostDevice; });

  std::vector<DeviceInfo> chosen;
  if (params.n_layers != 0) {
    std::copy_if(others.begin(), others.end(), std::back_inserter(chosen),
                 [](const DeviceInfo& info) { return !info.on_host_cpu; });
    if (chosen.empty() && params.n_layers > 0 && !others.empty()) chosen.push_back(others.front());
    // Next to the CPUs of other machines, this CPU takes a part of the layers, too.
    const bool beside_cpus =
        std::any_of(chosen.begin(), chosen.end(), [](const DeviceInfo& info) { return info.n_threads > 0; });
    if (unasked && beside_cpus)
      for (DeviceInfo& info : registry.devices())
        if (info.name == exec::kHostDevice) chosen.insert(chosen.begin(), std::move(info));
  }
  // A device that is named only by a pin gets the pinned nodes, and no layers.
  const std::size_t n_for_layers = chosen.size();
  if (n_for_layers > 0 && params.shares.size() > n_for_layers)
    refuse("there are parts for " + std::to_string(params.shares.size()) + " devices, and layers go to " +
           std::to_string(n_for_layers));
  for (const DeviceInfo& info : others) {
    const bool pinned = std::any_of(params.pins.begin(), params.pins.end(),
                                    [&](const Pin& pin) { return pin.device == info.name; });
    const bool there = std::any_of(chosen.begin(), chosen.end(),
                                   [&](const DeviceInfo& other) { return other.name == info.name; });
    if (pinned && !there) chosen.push_back(info);
  }
  if (n_for_layers == 0) params.n_layers = 0;
  if (chosen.size() > n_for_layers) {
    if (params.shares.empty())
      for (const DeviceInfo& info : chosen) params.shares.push_back(static_cast<float>(info.memory_free));
    params.shares.resize(n_for_layers);
  }
  for (const DeviceInfo& info : chosen) params.devices.push_back(info.name);
  if (chosen.empty()) params.devices.emplace_back(exec::kHostDevice);
  return params;
}

}  // namespace weft::engine
