#pragma once
// The processes that mpirun started: the first of them leads, and lists the others' devices as "rank1.cpu",
// "rank2.vulkan0"; the others follow it.
#include "weft/backend/registry.h"

namespace weft::mpi {

/// Joins the others. Of the leader: adds their devices. Throws Error kDevice that names one which does not
/// answer; the devices of those that do are there all the same.
void add(Registry& registry);
/// See ModuleInfo::follow.
bool follow(const Registry& registry);

}  // namespace weft::mpi
