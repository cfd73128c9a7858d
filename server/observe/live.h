#pragma once
// The state of a model's service as JSON, for the live page and /slots.
#include "json.h"
#include "models/served_model.h"

namespace weft::server {

Json stats_json(const BatcherStats& stats);
/// Percentiles in milliseconds.
Json latency_json(const BatcherStats& stats);
Json streams_json(const BatcherSnapshot& snapshot);
/// One entry for each slot, idle ones too, as llama.cpp's server lists them; a busy one also has the fields
/// of streams_json. Settings are the server's defaults.
Json slots_json(const BatcherSnapshot& snapshot, int n_slots, int n_ctx, bool drafts,
                const RequestParams& defaults);
/// One snapshot, with the steps after number `last_step`, which is updated. It waits for the computing
/// thread, so do not call it on the HTTP thread.
Json live_json(ServedModel& model, double uptime_s, std::int64_t& last_step);

}  // namespace weft::server
