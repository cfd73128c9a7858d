#pragma once
// Devices of a Runtime.
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/runtime.h"
#include "weft/backend/registry.h"

namespace weft::cuda {

/// Devices NAME0, NAME1 ... of the GPUs that `open` returns, which is called at first use.
Backend make_backend(const std::string& name, std::vector<std::shared_ptr<Runtime>> (*open)());

}  // namespace weft::cuda
