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
  // AVX-512 itself has none, which `supported` asks for.
  if (isa != Isa::kAvxVnni && isa != Isa::kAmx) return nullptr;
  if (!supported(Isa::kAvx512)) return nullptr;
  // With AVX-512's encoding, and with tiles in plain C++.
  return isa == Isa::kAvxVnni ? &avxvnni_stand_in::table() : &amx_stand_in::table();
}
#else
const Kernels* stand_in(Isa) { return nullptr; }
#endif

}  // namespace weft::cpu
