#include "observe/live.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "api/response_json.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

double ms_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

Json cells_json(const BatcherSnapshot& snapshot, const BatcherStats& stats) {
  Json runs = Json::array();
  for (const CellRun& run : snapshot.cells)
    runs.push_back({{"first", run.first}, {"n", run.n}, {"sequences", run.sequences}});
  return {{"total", std::max(stats.cells_total, snapshot.n_pages * snapshot.page_cells)},
          {"page", snapshot.page_cells},
          {"runs", std::move(runs)}};
}

Json steps_json(const StepLog& log, std::int64_t& last_step) {
  const auto now = std::chrono::steady_clock::now();
  Json steps = Json::array();
  for (const StepLog::Numbered& step : log.since(last_step)) {
    const StepRecord& record = step.record;
    const double ms = ms_of(record.end - record.begin);
    steps.push_back({{"at_ms", -ms_of(now - record.begin)},
                     {"ms", ms},
                     {"host_ms", ms - record.decode_ms},
                     {"decode_ms", record.decode_ms},
                     {"n_prompt", record.n_prompt},
                     {"n_decoded", record.n_generated},
                     {"n_drafted", record.n_drafted},
                     {"n_accepted", record.n_accepted},
                     {"n_streams", record.n_streams}});
    last_step = step.number;
  }
  return steps;
}

}  // namespace

Json stats_json(const BatcherStats& stats) {
  return {{"n_steps", stats.n_steps},
          {"n_failed_steps", stats.n_failed_steps},
          {"n_requests", stats.n_requests},
          {"n_rejected", stats.n_rejected},
          {"n_waiting", stats.n_waiting},
          {"n_running", stats.n_running},
          {"n_prefilling", stats.n_prefilling},
          {"n_paused", stats.n_paused},
          {"longest_wait_ms", stats.longest_wait_ms},
          {"cells_total", stats.cells_total},
          {"cells_used", stats.cells_used},
          {"cells_cached", stats.cells_cached},
          {"cells_peak", stats.cells_peak},
          {"sequences_total", stats.sequences_total},
          {"sequences_cached", stats.sequences_cached},
          {"sequences_free", stats.sequences_free},
          {"snapshots_cached", stats.snapshots_cached},
          {"n_snapshots", stats.n_snapshots},
          {"n_prompt_tokens", stats.n_prompt_tokens},
          {"n_cached_tokens", stats.n_cached_tokens},
          {"n_recomputed_tokens", stats.n_recomputed_tokens},
          {"n_generated_tokens", stats.n_generated_tokens},
          {"n_drafted_tokens", stats.n_drafted_tokens},
          {"n_accepted_tokens", stats.n_accepted_tokens},
          {"n_preempted", stats.n_preempted},
          {"n_evicted", stats.n_evicted},
          {"n_completed", stats.n_completed},
          {"n_cancelled", stats.n_cancelled},
          {"n_timed_out", stats.n_timed_out},
          {"n_errors", stats.n_errors},
          {"host_seconds", stats.host_seconds},
          {"decode_seconds", stats.decode_seconds}};
}

Json latency_json(const BatcherStats& stats) {
  const auto percentiles = [](const LatencyHistogram& histogram) {
    return Json{{"p50", histogram.percentile_ms(0.5)},
                {"p90", histogram.percentile_ms(0.9)},
                {"p99", histogram.percentile_ms(0.99)}};
  };
  return {{"first_token", percentiles(stats.first_token)},
          {"between_tokens", percentiles(stats.between_tokens)},
          {"queue", percentiles(stats.queue)},
          {"step", percentiles(stats.step)}};
}

Json stream_json(const BatcherSnapshot::Stream& stream) {
  return {{"request", stream.request},        {"completion", stream.completion},
          {"state", to_string(stream.state)}, {"sequence", stream.sequence},
          {"n_prompt", stream.n_prompt},      {"n_cached", stream.n_cached},
          {"n_read", stream.n_read},          {"n_generated", stream.n_generated},
          {"priority", stream.priority},      {"age_ms", stream.age_ms}};
}

Json streams_json(const BatcherSnapshot& snapshot) {
  Json streams = Json::array();
  for (const BatcherSnapshot::Stream& stream : snapshot.streams) streams.push_back(stream_json(stream));
  return streams;
}

Json slots_json(const BatcherSnapshot& snapshot, int n_slots, int n_ctx, bool drafts,
                const RequestParams& defaults) {
  const Json params = settings_json(defaults);
  std::vector<const BatcherSnapshot::Stream*> running;
  for (const BatcherSnapshot::Stream& stream : snapshot.streams)
    if (stream.sequence >= 0) running.push_back(&stream);
  std::sort(running.begin(), running.end(),
            [](const auto* a, const auto* b) { return a->sequence < b->sequence; });
  Json slots = Json::array();
  for (std::size_t i = 0; i < std::max(running.size(), to_size(n_slots)); ++i) {
    const BatcherSnapshot::Stream* const stream = i < running.size() ? running[i] : nullptr;
    const int n_generated = stream != nullptr ? stream->n_generated : 0;
    Json slot = {{"id", i},
                 {"id_task", stream != nullptr ? stream->request : -1},
                 {"n_ctx", n_ctx},
                 {"speculative", drafts},
                 {"is_processing", stream != nullptr}};
    if (stream != nullptr) {
      slot["n_prompt_tokens"] = stream->n_prompt;
      slot["n_prompt_tokens_cache"] = stream->n_cached;
      slot["n_prompt_tokens_processed"] =
          std::max(0, std::min(stream->n_prompt, stream->n_read) - stream->n_cached);
      slot.update(stream_json(*stream));
    }
    slot["params"] = params;
    slot["next_token"] =
        Json::array({{{"has_next_token", stream != nullptr},
                      {"n_remain", defaults.n_predict < 0 ? -1 : defaults.n_predict - n_generated},
                      {"n_decoded", n_generated}}});
    slots.push_back(std::move(slot));
  }
  return slots;
}

Json live_json(ServedModel& model, double uptime_s, std::int64_t& last_step) {
  const auto drawn = model.snapshot();
  const BatcherSnapshot& snapshot = *drawn;
  const BatcherStats stats = model.service ? model.service->stats() : BatcherStats{};
  Json sequences = Json::array();
  for (const BatcherSnapshot::Sequence& sequence : snapshot.sequences)
    sequences.push_back({{"id", sequence.id},
                         {"n_tokens", sequence.n_tokens},
                         {"state", sequence.running ? "running" : "cached"}});
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {{"model", model.spec.name},
          {"uptime_s", uptime_s},
          {"time_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now).count()},
          {"stats", stats_json(stats)},
          {"latency", latency_json(stats)},
          {"steps", steps_json(model.steps, last_step)},
          {"streams", streams_json(snapshot)},
          {"n_waiting", snapshot.n_waiting},
          {"sequences", std::move(sequences)},
          {"cells", cells_json(snapshot, stats)}};
}

}  // namespace weft::server
