// The library has no stand-ins. Nothing else belongs into this file, or a test could not replace it.
#include "backend/cpu/kernels/stand_ins.h"

namespace weft::cpu {

const Kernels* stand_in(Isa) { return nullptr; }

}  // namespace weft::cpu
