// The kernels for x86-64 with AMX's byte tiles: the kernels of avx512.cpp, except for products of 16 and more
// rows of activations. They are the same sums from the same source, so a row has the same bits in any step.
#if defined(__x86_64__)
#ifndef WEFT_CPU_ISA  // A test compiles this source without AMX (kernels/stand_ins.h).
#define WEFT_CPU_ISA amx
#endif
#define WEFT_PRODUCTS_IN_TILES
// g++ 12 warns of its own "undefined" helpers in these intrinsics (GCC bug 105593). And not all is used here.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "backend/cpu/kernels/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/kernels/vec_avx512.h"
#include "backend/cpu/kernels/matmul_vec_avx512.h"
#include "backend/cpu/kernels/products.inl"
// clang-format on

namespace weft::cpu {

namespace avx512 {
extern const Kernels kTable;
}

namespace WEFT_CPU_ISA {

/// Whether a matrix has codes that lie together.
static bool has_codes(const PackedMatrix& matrix) {
  const int i = matrix.compact ? -1 : panel::layout_index(matrix);
  return i >= 0 && !kPanelLayouts[i].tall && kPanelLayouts[i].element_bytes == 0;
}

/// Whole tiles, whose rows must be at equal distances, and the rest of the columns.
static void matmul_in_tiles(const MatmulArgs& args, Range panels, Range columns) {
  const std::int64_t n = (columns.end - columns.begin) / panel::kTileSide * panel::kTileSide;
  if (n > 0 && args.x_rows == nullptr && has_codes(*args.weight) &&
      (args.gate == nullptr || has_codes(*args.gate))) {
    const panel::TileShapes shapes;
    matmul(args, panels, {columns.begin, columns.begin + n});
    columns.begin += n;
  }
  if (columns.begin < columns.end) avx512::kTable.matmul(args, panels, columns);
}

const Kernels& table();
const Kernels& table() {
  static const Kernels table = [] {
    Kernels kernels = avx512::kTable;
    kernels.name = "amx";
    kernels.matmul = matmul_in_tiles;
    return kernels;
  }();
  return table;
}

}  // namespace WEFT_CPU_ISA
}  // namespace weft::cpu
#endif
