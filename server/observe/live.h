#pragma once
// How a model's service stands, as JSON: for the live page and /slots.
#include "json.h"
#include "models/served_model.h"

namespace weft::server {

Json stats_json(const BatcherStats& stats);
/// Percentiles in milliseconds.
Json latency_json(const BatcherStats& stats);
Json streams_json(const BatcherPicture& picture);
/// One entry for each slot, idle ones too, as llama.cpp's server lists them; a busy one also has what
/// streams_json tells. Settings are the server's defaults.
Json slots_json(const BatcherPicture& picture, int n_slots, int n_ctx, const RequestParams& defaults);
/// One snapshot, with the steps behind the one of number `last_step`, which is moved on. Waits for the
/// computing thread: not on the HTTP thread.
Json live_json(ServedModel& model, double uptime_s, std::int64_t& last_step);

}  // namespace weft::server
