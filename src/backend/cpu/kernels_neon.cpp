// The kernels for AArch64 with Advanced SIMD and dot products.
#if defined(__aarch64__)
#define WEFT_CPU_ISA neon
#include "backend/cpu/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/vec_neon.h"
#include "backend/cpu/matmul_vec_neon.h"
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
