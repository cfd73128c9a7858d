#pragma once
// Adapts options that name devices after some of the devices are lost.
#include <string>
#include <vector>

#include "weft/device.h"

namespace weft::cli {

/// Removes lost devices from `params`, with their shares and the pins to them. All shares are removed if
/// their owners are unclear: no device was named, or the CPU was named, which may have no share. If all named
/// devices are lost, `devices` becomes empty, as if none was named.
void leave_out(const std::vector<std::string>& lost, PlacementParams& params);

/// Describes the changes for the log: "lost: rank1.cpu; --device is cpu now".
std::string describe_loss(const std::vector<std::string>& lost, const PlacementParams& before);

}  // namespace weft::cli
