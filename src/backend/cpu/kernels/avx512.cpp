// The kernels for x86-64 with AVX-512 F, BW, DQ, VL and VNNI.
#if defined(__x86_64__)
#define WEFT_CPU_ISA avx512
// g++ 12 warns of its own "undefined" helpers in these intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "backend/cpu/kernels/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/kernels/vec_avx512.h"
#include "backend/cpu/kernels/matmul_vec_avx512.h"
// clang-format on
#include "backend/cpu/kernels/table.inl"
#endif
