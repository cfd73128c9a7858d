// The kernels for x86-64 with AVX2, FMA and F16C.
#if defined(__x86_64__)
#define WEFT_CPU_ISA avx2
#include "backend/cpu/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/vec_avx2.h"
#include "backend/cpu/matmul_vec_avx2.h"
#include "backend/cpu/rows.inl"
#include "backend/cpu/quantise.inl"
#include "backend/cpu/best.inl"
#include "backend/cpu/matmul.inl"
#include "backend/cpu/screen.inl"
#include "backend/cpu/attention.inl"
#include "backend/cpu/recurrent.inl"
#include "backend/cpu/peak.inl"
// clang-format on
#include "backend/cpu/kernels_table.inl"
#endif
