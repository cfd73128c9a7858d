#include "exec/device_set.h"

#include <algorithm>

#include "exec/splits.h"
#include "weft/error.h"

namespace weft::exec {

std::vector<Device*> DeviceSet::pointers() const {
  std::vector<Device*> result;
  for (const auto& device : devices) result.push_back(device.get());
  return result;
}

std::vector<bool> DeviceSet::is_async() const { return exec::is_async(pointers()); }

bool DeviceSet::all_named_are_cpus() const {
  return std::all_of(named.begin(), named.end(),
                     [&](int d) { return devices[index(d)]->info().n_threads > 0; });
}

int DeviceSet::find(const std::string& name) const {
  std::string known;
  for (int d = 0; d < size(); ++d) {
    const std::string& own = devices[index(d)]->info().name;
    if (own == name) return d;
    known += (known.empty() ? "" : ", ") + own;
  }
  throw Error(ErrorCode::kNotFound, "unknown device \"" + name + "\"; known are " + known);
}

DeviceSet open_devices(const Registry& registry, const PlacementParams& params, const OpenOptions& options) {
  DeviceSet set;
  std::vector<std::string> names;
  set.host = -1;
  for (const std::string& word : params.devices) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string listed = equals == std::string::npos ? name : word.substr(equals + 1);
    if (name.empty())
      throw Error(ErrorCode::kInvalidArgument,
                  "\"" + word + "\" names no device; NAME=DEVICE gives one another name");
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw Error(ErrorCode::kInvalidArgument,
                  "two devices are named \"" + name + "\"; NAME=DEVICE gives one another");
    names.push_back(name);
    OpenOptions own = options;
    own.name = name;
    set.devices.push_back(registry.open(listed, own));
    if (name == kHostDevice) {
      set.host = set.size() - 1;
    } else {
      set.named.push_back(set.size() - 1);
    }
  }
  if (set.host < 0) {
    set.devices.push_back(registry.open(kHostDevice, options));
    set.host = set.size() - 1;
  } else if (!set.named.empty() && params.n_layers < 0 && set.all_named_are_cpus()) {
    set.named.insert(std::upper_bound(set.named.begin(), set.named.end(), set.host), set.host);
  }
  return set;
}

}  // namespace weft::exec
