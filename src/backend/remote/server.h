#pragma once
#include "backend/remote/link.h"
#include "weft/backend/registry.h"

namespace weft::remote {

/// A follower: does what the other end of the link asks, with the devices of the registry, until it says that
/// this was all. Takes the calling thread for that, and one more. Throws Error kDevice where the link breaks.
void serve(const Registry& registry, Link& link);

}  // namespace weft::remote
