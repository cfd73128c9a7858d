#pragma once
// Which devices a model is spread over when its user has not named them.
#include "weft/backend/registry.h"
#include "weft/device.h"

namespace weft::engine {

/// `params` with devices for those that it leaves open, chosen by the rules of PlacementParams. Layers and
/// shares are set so that they mean those devices. Where `params` names devices, it comes back as it is.
PlacementParams choose_devices(const Registry& registry, PlacementParams params);

}  // namespace weft::engine
