// The kernels for AArch64 with products of 2 x 8 by 8 x 2 bytes (FEAT_I8MM): the kernels of neon.cpp, except
// for products of many columns. The reported peak is neon's, which these products may exceed.
#if defined(__aarch64__)
#define WEFT_CPU_ISA i8mm
#pragma GCC diagnostic ignored "-Wunused-function"  // Not all is used here.
#include "backend/cpu/kernels/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/kernels/vec_neon.h"
#include "backend/cpu/kernels/matmul_vec_neon.h"
#include "backend/cpu/kernels/products.inl"
// clang-format on
#if !defined(WEFT_COLUMNS_IN_PAIRS)
#error "compile this file with +i8mm"
#endif

namespace weft::cpu {

namespace neon {
extern const Kernels kTable;
}

namespace WEFT_CPU_ISA {

const Kernels& table();
const Kernels& table() {
  static const Kernels table = [] {
    Kernels kernels = neon::kTable;
    kernels.name = "i8mm";
    kernels.matmul = matmul;
    return kernels;
  }();
  return table;
}

}  // namespace WEFT_CPU_ISA
}  // namespace weft::cpu
#endif
