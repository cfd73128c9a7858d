#pragma once
// What callers may ask of a model: values that no model and no machine can make sense of.
#include "weft/model.h"

namespace weft::engine {

/// Throws Error kInvalidArgument for what is wrong whatever the file and the devices are. Names of devices,
/// pins and sizes of contexts are checked where they are used.
void check(const ModelParams& params);

/// The same for a number of threads, of models and contexts alike. 0 stands for as many as there are cores.
void check_threads(int n_threads);

}  // namespace weft::engine
