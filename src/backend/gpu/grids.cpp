#include "backend/gpu/grids.h"

#include <algorithm>
#include <iterator>

#include "tensor/codec_grids.h"

namespace weft::gpu {

bool has_grid(DType dtype) {
  switch (dtype) {
    case DType::kIQ1_S:
    case DType::kIQ1_M:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
      return true;
    default:
      return false;
  }
}

std::vector<std::uint16_t> grid_table() {
  std::vector<std::uint16_t> table;
  const auto add = [&](const auto& grid) { std::copy(grid.begin(), grid.end(), std::back_inserter(table)); };
  add(codec::kIQ1Grid);
  add(codec::kIQ2XXSGrid);
  add(codec::kIQ2XSGrid);
  add(codec::kIQ2SGrid);
  add(codec::kIQ3XXSGrid);
  add(codec::kIQ3SGrid);
  return table;
}

}  // namespace weft::gpu
