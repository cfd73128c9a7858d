#pragma once
#include "backend/remote/link.h"
#include "backend/remote/patience.h"
#include "backend/remote/peers.h"
#include "weft/backend/registry.h"

namespace weft::remote {

/// A follower: executes the requests of the other end of the link, with the devices of the registry, until
/// the end of requests. Uses the calling thread for that, and another one. Throws Error kDevice where the
/// link breaks. Throws it also where the leader, which checks periodically whether this end lives, was silent
/// for three times the patience. Throws kUnavailable if the reason may be that this process was itself
/// suspended for so long that the leader has given it up. Throws kUnavailable also where this process cannot
/// do what other followers rely on. The link is given up then.
void serve(const Registry& registry, Link& link, Patience patience = {}, Peers::Connect connect = {});

}  // namespace weft::remote
