// The kernels for x86-64 with AVX-VNNI: the kernels of avx2.cpp, except for dot products of bytes.
#if defined(__x86_64__)
#ifndef WEFT_CPU_ISA  // A test compiles this source with the encoding of AVX-512 (kernels/stand_ins.h).
#define WEFT_CPU_ISA avxvnni
#endif
#pragma GCC diagnostic ignored "-Wunused-function"  // Not all is used here.
#include "backend/cpu/kernels/kernels.h"
// clang-format off: the vector contracts come before the kernels written over them.
#include "backend/cpu/kernels/vec_avx2.h"
#include "backend/cpu/kernels/matmul_vec_avx2.h"
#include "backend/cpu/kernels/products.inl"
#include "backend/cpu/kernels/screen.inl"
#include "backend/cpu/kernels/peak.inl"
// clang-format on
#if !defined(WEFT_HAS_VNNI)
#error "compile this file with -mavxvnni"
#endif

namespace weft::cpu {

namespace avx2 {
extern const Kernels kTable;
}

namespace WEFT_CPU_ISA {

const Kernels& table();
const Kernels& table() {
  static const Kernels table = [] {
    Kernels kernels = avx2::kTable;
    kernels.name = "avxvnni";
    kernels.matmul = matmul;
    kernels.screen = screen;
    kernels.sift_candidates = sift_candidates;
    kernels.dot_peak = dot_peak;
    kernels.dot_peak_multiply_adds = kDotPeakMultiplyAdds;
    return kernels;
  }();
  return table;
}

}  // namespace WEFT_CPU_ISA
}  // namespace weft::cpu
#endif
