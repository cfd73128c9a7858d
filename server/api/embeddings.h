#pragma once
// POST /v1/embeddings: a vector for each text, from any model, by pooling its hidden states.
#include "api/job.h"

namespace weft::server {

void embeddings(Job& job);

}  // namespace weft::server
