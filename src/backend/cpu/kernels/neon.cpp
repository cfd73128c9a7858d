// The kernels for AArch64 with Advanced SIMD and dot products.
#if defined(__aarch64__)
#define WEFT_CPU_ISA neon
#include "backend/cpu/kernels/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/kernels/vec_neon.h"
#include "backend/cpu/kernels/matmul_vec_neon.h"
#include "backend/cpu/kernels/rows.inl"
#include "backend/cpu/kernels/quantise.inl"
#include "backend/cpu/kernels/best.inl"
#include "backend/cpu/kernels/log_sum.inl"
#include "backend/cpu/kernels/compact.inl"
#include "backend/cpu/kernels/panel_codes.inl"
#include "backend/cpu/kernels/super_blocks.inl"
#include "backend/cpu/kernels/matmul.inl"
#include "backend/cpu/kernels/unpacked.inl"
#include "backend/cpu/kernels/low_rank.inl"
#include "backend/cpu/kernels/tiles.inl"
#include "backend/cpu/kernels/screen.inl"
#include "backend/cpu/kernels/attention.inl"
#include "backend/cpu/kernels/ragged.inl"
#include "backend/cpu/kernels/recurrent.inl"
#include "backend/cpu/kernels/elementwise.inl"
#include "backend/cpu/kernels/cells.inl"
#include "backend/cpu/kernels/product.inl"
#include "backend/cpu/kernels/windows.inl"
#include "backend/cpu/kernels/peak.inl"
#include "backend/cpu/kernels/pair_peak.inl"
// clang-format on
#include "backend/cpu/kernels/table.inl"
#endif
