#pragma once
// Kernels for instruction sets that a machine lacks, so that tests can run them there.
#include "backend/cpu/kernels/kernels.h"

namespace weft::cpu {

/// Replacements for the kernels of an instruction set that the machine lacks: the same source compiled to
/// other instructions, or null. The library has none. A test's program defines this function itself
/// (tests/backend_cpu/stand_ins.cpp), and so all its tests run them.
const Kernels* stand_in(Isa isa);

}  // namespace weft::cpu
