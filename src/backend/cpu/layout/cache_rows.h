#pragma once
// Cells of a cache as canonical rows: what crosses the device's contract, and how quantised ones are stored.
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/dtype.h"
#include "weft/graph/kinds.h"

namespace weft::cpu {

/// One row is [n_heads][head_dim] elements as GGUF stores them.
struct CacheShape {
  DType dtype = DType::kF32;
  int n_heads = 0;
  int head_dim = 0;
};

void read_cells(const CacheShape& shape, CacheRole role, const std::byte* cache,
                std::span<const std::int32_t> cells, std::byte* rows);
void write_cells(const CacheShape& shape, CacheRole role, std::span<const std::int32_t> cells,
                 const std::byte* rows, std::byte* cache);

// For quantised types; one row is [n_heads][head_dim] floats.
void quantise_cell(const CacheShape& shape, CacheRole role, const float* row, std::int64_t cell,
                   std::byte* cache);
void unpack_cell(const CacheShape& shape, CacheRole role, const std::byte* cache, std::int64_t cell,
                 float* row);
/// Copies a cell as it is.
void copy_cell(const CacheShape& shape, CacheRole role, std::int64_t from, std::int64_t to, std::byte* cache);

}  // namespace weft::cpu
