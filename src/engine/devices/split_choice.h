#pragma once
// Whether CPUs of several processes compute each layer together: the part of choose_split (weft/cluster.h)
// that knows neither files nor registries.
#include <span>

#include "weft/cluster.h"

namespace weft::engine {

/// `cpus` are the devices, the host first.
SplitChoice choose_split(std::span<const DeviceInfo> cpus, const ModelWork& work, int n_texts);

}  // namespace weft::engine
