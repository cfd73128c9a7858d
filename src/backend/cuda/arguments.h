#pragma once
#include <algorithm>

#include "backend/cuda/launch.h"
#include "backend/gpu/launches.h"
#include "base/check.h"

namespace weft::cuda {

/// What a launch's kernel is called with.
inline Arguments arguments_of(const gpu::Launch& launch) {
  Arguments arguments = {launch.push, {}};
  WEFT_CHECK(launch.constants.size() <= kMaxConstants);
  std::copy(launch.constants.begin(), launch.constants.end(), arguments.constants);
  return arguments;
}

}  // namespace weft::cuda
