#pragma once
// POST /v1/rerank: documents by how well they answer a query, as Jina's and Cohere's API have it.
#include "api/job.h"

namespace weft::server {

void rerank(Job& job);

}  // namespace weft::server
