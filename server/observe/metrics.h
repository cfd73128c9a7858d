#pragma once
// GET /metrics: the counters of the services in Prometheus' format. Names follow vLLM's, with the prefix
// "weft:".
#include <string>

#include "http/http_server.h"
#include "models/model_pool.h"

namespace weft::server {

std::string metrics_text(const std::vector<ModelState>& models, const HttpCounts& http);

}  // namespace weft::server
