#pragma once
// What a launch asks of a GPU, whatever its API: a kernel by name, and the parameters that it reads. Each
// backend has its own sources for the kernels (vulkan/shaders, cuda/kernels).
#include <cstdint>
#include <optional>

#include "backend/gpu/push.h"
#include "weft/dtype.h"

namespace weft::gpu {

const char* name(Kernel kernel);

/// The kernels' number of a type that they can unpack (stored_types.glsl), if there is one.
std::optional<std::uint32_t> stored_type(DType dtype);
/// F32, F16 or BF16: read element by element, and written.
bool is_float(DType dtype);

}  // namespace weft::gpu
