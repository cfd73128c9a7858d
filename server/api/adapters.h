#pragma once
// Adapters (LoRA) in requests, and /lora-adapters as llama.cpp's server has it.
#include "api/fields.h"
#include "api/job.h"

namespace weft::server {

/// [{"id": 0, "scale": 0.5}, ...]: what texts are written with. Throws ApiError, for ids that the model has
/// not too.
std::vector<AdapterUse> read_adapters(const Json& list, const std::string& path, const Model& model);
/// The adapters of a model, with the scales that requests get that name none.
Json adapters_json(const ServedModel& model);
/// POST /lora-adapters: other scales from now on; those that are left out get 0.
void set_adapters(Job& job);

}  // namespace weft::server
