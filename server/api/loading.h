#pragma once
// POST /models/load and /models/unload, as llama.cpp's server has them.
#include "api/job.h"

namespace weft::server {

/// The response once the model is loaded.
void report_loaded(Job& job);
/// Unloads the model once no request uses it.
void unload_model(Job& job);

}  // namespace weft::server
