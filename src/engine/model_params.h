#pragma once
// Checks a model's parameters for values that are invalid with any model and machine.
#include "weft/model.h"

namespace weft::engine {

/// Throws Error kInvalidArgument for values that are invalid with any file and devices. Names of devices,
/// pins and sizes of contexts are checked where they are used.
void check(const ModelParams& params);

/// The same for a number of threads, for models and contexts. 0 means the number of cores.
void check_threads(int n_threads);

}  // namespace weft::engine
