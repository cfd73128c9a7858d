#pragma once
// Chooses the devices of a model when the user has not named them.
#include "weft/backend/registry.h"
#include "weft/device.h"

namespace weft::engine {

/// Returns `params` with devices chosen by the rules of PlacementParams. Layers and shares are set for these
/// devices. If `params` names devices, it is returned unchanged.
PlacementParams choose_devices(const Registry& registry, PlacementParams params);

}  // namespace weft::engine
