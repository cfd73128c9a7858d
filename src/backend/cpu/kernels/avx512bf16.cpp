// The kernels for x86-64 with AVX-512 and its BF16: the kernels of avx512.cpp, except for attention. The
// processor multiplies its pairs of bfloat16 at twice the speed of floats.
#if defined(__x86_64__)
#define WEFT_CPU_ISA avx512bf16
// g++ 12 warns of its own "undefined" helpers in these intrinsics (GCC bug 105593). And not all is used here.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "backend/cpu/kernels/kernels.h"
// clang-format off: the vector contract comes before the kernels written over it.
#include "backend/cpu/kernels/vec_avx512.h"
#include "backend/cpu/kernels/attention.inl"
#include "backend/cpu/kernels/pair_peak.inl"
// clang-format on

namespace weft::cpu {

namespace avx512 {
extern const Kernels kTable;
}

namespace avx512bf16 {

const Kernels& table() {
  static const Kernels table = [] {
    Kernels kernels = avx512::kTable;
    kernels.name = "avx512bf16";
    kernels.attention = attention;
    kernels.attention_partials = attention_partials;
    kernels.attention_merge = attention_merge;
    kernels.pair_peak = pair_peak;
    return kernels;
  }();
  return table;
}

}  // namespace avx512bf16
}  // namespace weft::cpu
#endif
