#pragma once
// POST /v1/completions, and /infill for code between a prefix and a suffix.
#include "api/job.h"

namespace weft::server {

void completions(Job& job);
/// llama.cpp's: input_prefix, input_suffix, input_extra, prompt.
void infill(Job& job);

}  // namespace weft::server
