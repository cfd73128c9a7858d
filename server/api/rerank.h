#pragma once
// POST /v1/rerank: ranks documents by their relevance to a query, as in the APIs of Jina and Cohere.
#include "api/job.h"

namespace weft::server {

void rerank(Job& job);

}  // namespace weft::server
