#pragma once
// POST /v1/completions, llama.cpp's /completion, and /infill for code between a prefix and a suffix.
#include "api/job.h"

namespace weft::server {

void completions(Job& job);
/// llama.cpp's own form: `content`, `stop`, `timings`; a list for several prompts or completions.
void native_completion(Job& job);
/// The fields of both forms in one response. Several completions are in `choices`.
void completions_in_both_forms(Job& job);
/// llama.cpp's: input_prefix, input_suffix, input_extra, prompt.
void infill(Job& job);

}  // namespace weft::server
