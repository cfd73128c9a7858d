#pragma once
// How fast devices are, measured.
#include <string>

#include "weft/device.h"

#pragma GCC visibility push(default)

namespace weft {

struct DeviceSpeed {
  double bytes_per_second = 0.0;  ///< Of weights streamed through, one token at a time.
  double flops = 0.0;             ///< Multiplications and additions of products of many tokens, per second.
  double step_seconds = 0.0;      ///< Of a step that does next to nothing.
  double copy_bytes_per_second = 0.0;  ///< To the device and back.
};

/// Opens the device and measures it: a fraction of a second. Throws Error.
DeviceSpeed measure(const Registry& registry, const std::string& device);

}  // namespace weft

#pragma GCC visibility pop
