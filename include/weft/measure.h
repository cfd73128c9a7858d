#pragma once
// How fast devices are, measured.
#include <string>

#include "weft/device.h"

#pragma GCC visibility push(default)

namespace weft {

/// Opens the device and measures it, in a fraction of a second. For people: placement goes by
/// DeviceInfo::speed, which does not change from start to start. Throws Error.
DeviceSpeed measure(const Registry& registry, const std::string& device);

}  // namespace weft

#pragma GCC visibility pop
