#pragma once
// Which devices a model is spread over when its user has not named them.
#include "weft/backend/registry.h"
#include "weft/device.h"

namespace weft::engine {

/// `params`, with devices chosen by the rules of PlacementParams where it names none. Layers and shares are
/// set for these devices. If `params` names devices, it is returned unchanged.
PlacementParams choose_devices(const Registry& registry, PlacementParams params);

}  // namespace weft::engine
