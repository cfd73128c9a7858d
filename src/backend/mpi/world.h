#pragma once
// The processes that mpirun started: the first of them leads, and lists the others' devices as "rank1.cpu",
// "rank2.vulkan0"; the others follow it.
#include "weft/backend/registry.h"

namespace weft::mpi {

/// Joins the others. In the leader: adds their devices, which are listed as long as they respond. `follow`
/// reports their errors.
void add(Registry& registry);
/// See ModuleInfo::init_worker_process. Of the leader: throws Error kUnsupported that names one of the others
/// which cannot take part.
bool follow(const Registry& registry);

}  // namespace weft::mpi
