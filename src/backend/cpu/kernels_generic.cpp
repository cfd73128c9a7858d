// The kernels for any machine: plain loops that the compiler vectorises for its baseline.
#define WEFT_CPU_ISA generic
#include "backend/cpu/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/vec_generic.h"
#include "backend/cpu/matmul_vec_generic.h"
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
