// The kernels for x86-64 with AVX2, FMA and F16C.
#if defined(__x86_64__)
#define WEFT_CPU_ISA avx2
#include "backend/cpu/kernels/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/kernels/vec_avx2.h"
#include "backend/cpu/kernels/matmul_vec_avx2.h"
// clang-format on
#include "backend/cpu/kernels/table.inl"
#endif
