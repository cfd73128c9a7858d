#pragma once
// POST /tokenize, /detokenize, /apply-template: the tokens and prompts that a model would get.
#include "api/job.h"

namespace weft::server {

void tokenize(Job& job);
void detokenize(Job& job);
void apply_template(Job& job);

}  // namespace weft::server
