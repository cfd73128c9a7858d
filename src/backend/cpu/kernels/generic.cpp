// The kernels for any machine: plain loops that the compiler vectorises for its baseline.
#define WEFT_CPU_ISA generic
#include "backend/cpu/kernels/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/kernels/vec_generic.h"
#include "backend/cpu/kernels/matmul_vec_generic.h"
// clang-format on
#include "backend/cpu/kernels/table.inl"
