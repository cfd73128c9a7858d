#pragma once
// POST /v1/embeddings: a vector for each input, from any model, by pooling hidden states.
#include "api/job.h"

namespace weft::server {

void embeddings(Job& job);

}  // namespace weft::server
