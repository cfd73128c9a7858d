// The kernels that this program runs for instruction sets which the machine may lack.
#include "backend/cpu/kernels/stand_ins.h"

namespace weft::cpu {

#if defined(__x86_64__)
namespace avxvnni_stand_in {
const Kernels& table();
}

const Kernels* stand_in(Isa isa) {
  // Compiled with the encoding of AVX-512.
  if (isa == Isa::kAvxVnni && supported(Isa::kAvx512)) return &avxvnni_stand_in::table();
  return nullptr;
}
#else
const Kernels* stand_in(Isa) { return nullptr; }
#endif

}  // namespace weft::cpu
