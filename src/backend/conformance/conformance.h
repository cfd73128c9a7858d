#pragma once
// The conformance of a device that is open already (weft/conformance.h). The truth is written here and shares
// no code with any backend.
#include "backend/device.h"
#include "weft/conformance.h"

namespace weft {

/// Runs all cases, one after another. Throws what the device throws.
std::vector<ConformanceCase> check_conformance(Device& device, const ConformanceOptions& options = {});

}  // namespace weft
