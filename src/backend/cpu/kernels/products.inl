#pragma once
// Matrix products, in the order in which one part builds on another. Needs kernels.h, vec_<isa>.h,
// matmul_vec_<isa>.h and WEFT_CPU_ISA.

// clang-format off
#include "backend/cpu/kernels/rows.inl"
#include "backend/cpu/kernels/quantise.inl"
#include "backend/cpu/kernels/best.inl"
#include "backend/cpu/kernels/log_sum.inl"
#include "backend/cpu/kernels/panel_codes.inl"
#include "backend/cpu/kernels/compact.inl"
#include "backend/cpu/kernels/super_blocks.inl"
#include "backend/cpu/kernels/matmul.inl"
#include "backend/cpu/kernels/unpacked.inl"
#include "backend/cpu/kernels/low_rank.inl"
#include "backend/cpu/kernels/tiles.inl"
// clang-format on
