#pragma once
// The grids of the IQ types as shaders read them: one table in the device's memory, which launches that need
// it get the address of.
#include <cstdint>
#include <vector>

#include "weft/dtype.h"

namespace weft::vulkan {

/// Whether a type's values lie in a grid.
bool has_grid(DType dtype);

/// All grids, one behind another, where shaders/unpack_small.glsl expects them.
std::vector<std::uint16_t> grid_table();

}  // namespace weft::vulkan
