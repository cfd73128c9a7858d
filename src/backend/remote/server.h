#pragma once
#include "backend/remote/link.h"
#include "backend/remote/patience.h"
#include "backend/remote/peers.h"
#include "weft/backend/registry.h"

namespace weft::remote {

/// A follower: does what the other end of the link asks, with the devices of the registry, until it says that
/// this was all. Takes the calling thread for that, and another one. Throws Error kDevice where the link
/// breaks, and where the leader, which asks now and then whether this end lives, has not been heard of for
/// three times as long as patience lasts; kUnavailable where that may be since this process was itself
/// stopped for so long that the leader has given it up, and where this process cannot do what other followers
/// rely on. The link is given up then.
void serve(const Registry& registry, Link& link, Patience patience = {}, Peers::Connect connect = {});

}  // namespace weft::remote
