#pragma once
// POST /tokenize, /detokenize, /apply-template: what a text is before a model reads it.
#include "api/job.h"

namespace weft::server {

void tokenize(Job& job);
void detokenize(Job& job);
void apply_template(Job& job);

}  // namespace weft::server
