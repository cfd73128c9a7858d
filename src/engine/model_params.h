#pragma once
// What callers may ask of a model: values that no model and no machine can make sense of.
#include "weft/model.h"

namespace weft::engine {

/// Throws Error kInvalidArgument for values that are invalid with any file and devices. Names of devices,
/// pins and sizes of contexts are checked where they are used.
void check(const ModelParams& params);

/// The same for a number of threads, of models and contexts alike. 0 means the number of cores.
void check_threads(int n_threads);

}  // namespace weft::engine
