#pragma once
// What this machine's memory and arithmetic do at best, by the means that the kernels have.
#include "backend/cpu/kernels/kernels.h"
#include "weft/measure.h"

namespace weft::cpu {

/// n_threads 0: base::default_threads(). Throws Error kUnsupported, kOutOfMemory.
MachineLimits measure_limits(Isa isa, int n_threads);
double measure_products(Isa isa, DType weights, int n_threads);

}  // namespace weft::cpu
