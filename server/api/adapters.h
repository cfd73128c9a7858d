#pragma once
// Adapters (LoRA) in requests, and llama.cpp's endpoint /lora-adapters.
#include "api/fields.h"
#include "api/job.h"

namespace weft::server {

/// Reads a request's adapters: `[{"id": 0, "scale": 0.5}, ...]`. Throws ApiError, also for ids that the model
/// lacks.
std::vector<AdapterUse> read_adapters(const Json& list, const std::string& path, const Model& model);
/// The adapters of a model, with their default scales.
Json adapters_json(const ServedModel& model);
/// POST /lora-adapters: sets the default scales; adapters that are left out get 0.
void set_adapters(Job& job);

}  // namespace weft::server
