#include "backend/gpu/sizes.h"

#include <algorithm>

namespace weft::gpu {
namespace {

constexpr std::uint32_t kBlockColumns = 32;

/// Bytes of shared memory of a tile of floats, which takes the most (matmul_tiles.comp, tiles.glsl).
std::uint32_t tile_bytes(const Tile& tile) {
  return (tile.outputs + tile.rows) * (kBlockColumns + 4) * 4 + tile.rows * 8;
}

/// Whether products of all tiles can be made of such matrices.
bool fits(const MatrixShape& matrix, const Sizes& sizes, const DeviceLimits& limits) {
  const std::uint32_t k = matrix.columns;
  if ((k != 8 && k != 16 && k != 32) || limits.subgroup == 0) return false;
  if (matrix.outputs * matrix.rows % limits.subgroup != 0) return false;
  const auto fits_into = [&](std::uint32_t outputs, std::uint32_t rows) {
    const std::uint32_t threads = matrix_threads({outputs, rows}, matrix, limits.subgroup);
    return threads >= rows && threads <= limits.threads && threads / limits.subgroup <= limits.subgroups;
  };
  for (const Tile& tile : {sizes.few_tile, sizes.many_tile})
    if (!fits_into(tile.outputs, tile.rows) || !fits_into(sizes.narrow_outputs, tile.rows)) return false;
  return true;
}

}  // namespace

std::uint32_t tile_threads(const Tile& tile) { return tile.outputs * tile.rows / 32; }

std::uint32_t matrix_threads(const Tile& tile, const MatrixShape& matrix, std::uint32_t subgroup) {
  const std::uint32_t outputs = 2 * matrix.outputs, rows = 2 * matrix.rows;
  if (outputs == 0 || rows == 0 || tile.outputs % outputs != 0 || tile.rows % rows != 0) return 0;
  return tile.outputs / outputs * (tile.rows / rows) * subgroup;
}

Sizes sizes_of(const DeviceLimits& limits) {
  Sizes sizes;
  sizes.subgroup = limits.subgroup;
  constexpr Tile kLarge = {128, 64}, kSmall = {64, 32};
  const bool large = limits.shared_bytes >= tile_bytes(kLarge) && limits.threads >= tile_threads(kLarge);
  sizes.many_tile = large ? kLarge : kSmall;
  sizes.few_tile = {sizes.many_tile.outputs, kSmall.rows};
  sizes.narrow_outputs = kSmall.outputs;
  sizes.best_threads = large ? 256 : 128;
  sizes.queries = large ? 16 : 4;
  sizes.query_floats = large ? 2048 : 1024;
  // Products of matrices are better the more often they use each element that they read.
  for (const MatrixShape& matrix : limits.matrices) {
    const auto work = [](const MatrixShape& m) { return m.outputs * m.rows * m.columns; };
    if (fits(matrix, sizes, limits) && (!sizes.matrix.has_value() || work(matrix) > work(*sizes.matrix)))
      sizes.matrix = matrix;
  }
  return sizes;
}

}  // namespace weft::gpu
