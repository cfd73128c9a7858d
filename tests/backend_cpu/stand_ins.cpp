// The kernels that this program runs for instruction sets which the machine may lack.
#include "backend/cpu/kernels/stand_ins.h"

namespace weft::cpu {

#if defined(__x86_64__)
namespace avxvnni_stand_in {
const Kernels& table();
}
namespace amx_stand_in {
const Kernels& table();
}

const Kernels* stand_in(Isa isa) {
  if (!supported(Isa::kAvx512)) return nullptr;
  if (isa == Isa::kAvxVnni) return &avxvnni_stand_in::table();  // With AVX-512's encoding.
  if (isa == Isa::kAmx) return &amx_stand_in::table();          // With tiles in plain C++.
  return nullptr;
}
#else
const Kernels* stand_in(Isa) { return nullptr; }
#endif

}  // namespace weft::cpu
