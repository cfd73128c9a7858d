#pragma once
// The grids of the IQ types as shaders read them: one table in the device's memory, which launches that need
// it get the address of.
#include <cstdint>
#include <vector>

#include "weft/dtype.h"

namespace weft::gpu {

/// Whether a type's values are in a grid.
bool has_grid(DType dtype);

/// All grids, concatenated in the order of shaders/unpack_small.glsl.
std::vector<std::uint16_t> grid_table();

}  // namespace weft::gpu
