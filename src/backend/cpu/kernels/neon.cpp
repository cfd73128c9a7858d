// The kernels for AArch64 with Advanced SIMD and dot products.
#if defined(__aarch64__)
#define WEFT_CPU_ISA neon
#include "backend/cpu/kernels/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/kernels/vec_neon.h"
#include "backend/cpu/kernels/matmul_vec_neon.h"
// clang-format on
#include "backend/cpu/kernels/table.inl"
#endif
