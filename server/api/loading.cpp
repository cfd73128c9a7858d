#include "api/loading.h"

#include <fmt/format.h>

namespace weft::server {

void report_loaded(Job& job) {
  job.fields().done();
  job.send({{"success", true}, {"model", job.model_name}});
}

void unload_model(Job& job) {
  Fields fields = job.fields();
  const std::string name = fields.string("model");
  fields.done();
  if (name.empty()) throw bad_request("model", "'model' is missing");
  if (!job.models->knows(name))
    throw ApiError(404, "invalid_request_error", "model_not_found", "model",
                   fmt::format("unknown model '{}'; GET /models lists the models", name.substr(0, 200)));
  job.models->keep(name, std::chrono::milliseconds(0));
  job.send({{"success", true}});
}

}  // namespace weft::server
