#pragma once
// Sizes of tiles and workgroups, by the device's properties: the one place that decides them. Sizes are times
// only, results have the same bits with all of them.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weft::gpu {

/// A product of two matrices of bytes that the threads of a subgroup make together.
struct MatrixShape {
  std::uint32_t outputs = 0, rows = 0, columns = 0;
  friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

/// What a device tells.
struct DeviceLimits {
  std::uint32_t subgroup = 0;             ///< Threads.
  std::uint32_t shared_bytes = 16 << 10;  ///< Of a workgroup; the least that Vulkan allows ...
  std::uint32_t threads = 128;            ///< ... and here.
  std::uint32_t subgroups = 0;            ///< That a workgroup can have where it says how large they are.
  std::vector<MatrixShape> matrices;      ///< That it multiplies by subgroups; empty where it does not.
};

/// What a workgroup makes of a product of many rows.
struct Tile {
  std::uint32_t outputs = 0, rows = 0;
  friend bool operator==(const Tile&, const Tile&) = default;
};

struct Sizes {
  Tile few_tile, many_tile;  ///< For few rows, and for many; of products with enough outputs.
  std::uint32_t narrow_outputs =
      0;                           ///< Outputs of a tile if a product has few, so that there are more tiles.
  std::uint32_t best_threads = 0;  ///< At most, to choose the best of a row.
  std::uint32_t queries = 0;       ///< At most, in a workgroup of attention at a time,
  std::uint32_t query_floats = 0;  ///< ... and their floats.
  std::optional<MatrixShape> matrix;  ///< Tiles of codes are made of these.
  std::uint32_t subgroup = 0;
};

Sizes sizes_of(const DeviceLimits& limits);

/// Threads of a workgroup that makes a tile, each of them 8 by 4 numbers.
std::uint32_t tile_threads(const Tile& tile);
/// Threads of a workgroup whose subgroups make 2 by 2 matrices each of a tile; 0: they do not fit into it.
std::uint32_t matrix_threads(const Tile& tile, const MatrixShape& matrix, std::uint32_t subgroup);

}  // namespace weft::gpu
