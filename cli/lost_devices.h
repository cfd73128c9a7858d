#pragma once
// What becomes of options that name devices where some of these have gone.
#include <string>
#include <vector>

#include "weft/device.h"

namespace weft::cli {

/// Takes lost devices out of a choice, with their parts, and pins to them. Where it is not sure whose part is
/// whose (no device was named, or the CPU was, which may have none), there are no parts any more. Where all
/// that were named have gone, none was.
void leave_out(const std::vector<std::string>& lost, PlacementParams& params);

/// What that changes, for the log: "lost: rank1.cpu; --device is cpu now".
std::string describe_loss(const std::vector<std::string>& lost, const PlacementParams& before);

}  // namespace weft::cli
