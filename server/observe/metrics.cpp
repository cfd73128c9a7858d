#include "observe/metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <map>
#include <utility>

#include "base/to_size.h"

namespace weft::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

/// Families in the order of their first mention. All names begin with `prefix`.
class Families {
 public:
  explicit Families(std::string prefix) : prefix_(std::move(prefix)) {}

  void counter(const std::string& name, const std::string& help, const std::string& model, double value,
               std::vector<ClientMetric::Label> labels = {}) {
    ClientMetric& metric = add(name, help, MetricType::Counter, model, std::move(labels));
    metric.counter.value = value;
  }
  void gauge(const std::string& name, const std::string& help, const std::string& model, double value,
             std::vector<ClientMetric::Label> labels = {}) {
    ClientMetric& metric = add(name, help, MetricType::Gauge, model, std::move(labels));
    metric.gauge.value = value;
  }
  void histogram(const std::string& name, const std::string& help, const std::string& model,
                 const LatencyHistogram& values) {
    ClientMetric& metric = add(name, help, MetricType::Histogram, model, {});
    std::uint64_t count = 0;
    for (int range = 0; range < LatencyHistogram::kRanges; ++range) {
      count += static_cast<std::uint64_t>(values.counts[to_size(range)]);
      const double end = LatencyHistogram::end_ms(range);
      metric.histogram.bucket.push_back({count, end / 1000.0});
    }
    metric.histogram.sample_count = static_cast<std::uint64_t>(values.n);
    metric.histogram.sample_sum = values.sum_ms / 1000.0;
  }
  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  ClientMetric& add(const std::string& name, const std::string& help, MetricType type,
                    const std::string& model, std::vector<ClientMetric::Label> labels) {
    const auto [found, is_new] = index_.emplace(name, families_.size());
    if (is_new) families_.push_back({prefix_ + name, help, type, {}});
    ClientMetric& metric = families_[found->second].metric.emplace_back();
    if (!model.empty()) labels.insert(labels.begin(), {"model_name", model});
    metric.label = std::move(labels);
    return metric;
  }

  const std::string prefix_;
  std::vector<MetricFamily> families_;
  std::map<std::string, std::size_t> index_;
};

void add_model(Families& families, const std::string& model, const BatcherStats& s) {
  const auto count = [&](const char* name, const char* help, std::int64_t value) {
    families.counter(name, help, model, static_cast<double>(value));
  };
  const auto gauge = [&](const char* name, const char* help, double value) {
    families.gauge(name, help, model, value);
  };
  gauge("num_requests_running", "Completions that are computed.", s.n_running);
  gauge("num_requests_waiting", "Completions in the queue.", s.n_waiting);
  gauge("num_requests_paused", "Completions paused because their clients read slowly.", s.n_paused);
  gauge("num_requests_prefilling", "Running completions in prefill.", s.n_prefilling);
  gauge("waiting_tokens", "Tokens of the sequences in the queue.", static_cast<double>(s.n_waiting_tokens));
  gauge("longest_wait_seconds", "Time in the queue of the oldest completion there.",
        s.longest_wait_ms / 1000.0);
  gauge("kv_cache_usage_perc", "Share of the cache's cells in use, 0 to 1.",
        s.cells_total > 0 ? static_cast<double>(s.cells_used) / s.cells_total : 0.0);
  for (const auto& [state, n] :
       {std::pair("running", s.cells_used - s.cells_cached), std::pair("cached", s.cells_cached),
        std::pair("free", s.cells_total - s.cells_used)})
    families.gauge("kv_cache_cells", "Cells of the cache.", model, n, {{"state", state}});
  for (const auto& [state, n] :
       {std::pair("running", s.sequences_total - s.sequences_cached - s.sequences_free),
        std::pair("cached", s.sequences_cached), std::pair("free", s.sequences_free)})
    families.gauge("sequences", "Sequences of the cache.", model, n, {{"state", state}});
  gauge("snapshots_cached", "Snapshots among the cached sequences.", s.snapshots_cached);
  count("snapshots_total", "Snapshots of prompts.", s.n_snapshots);
  count("requests_total", "Requests that were submitted.", s.n_requests);
  count("requests_rejected_total", "Requests refused because the queue was full.", s.n_rejected);
  for (const auto& [reason, n] :
       {std::pair("completed", s.n_completed), std::pair("cancelled", s.n_cancelled),
        std::pair("timeout", s.n_timed_out), std::pair("error", s.n_errors)})
    families.counter("completions_total", "Completions by how they ended.", model, static_cast<double>(n),
                     {{"reason", reason}});
  count("prompt_tokens_total", "Tokens of prompts, computed.", s.n_prompt_tokens);
  count("prefix_cache_hits_total", "Tokens of prompts, found in the cache.", s.n_cached_tokens);
  count("tier_stored_tokens_total", "Tokens copied from the cache to its tiers.", s.tiers.n_stored_tokens);
  for (const auto& [tier, n] :
       {std::pair("ram", s.tiers.n_ram_tokens), std::pair("disk", s.tiers.n_disk_tokens)})
    families.counter("tier_restored_tokens_total", "Tokens restored from a tier.", model,
                     static_cast<double>(n), {{"tier", tier}});
  for (const auto& [tier, n] : {std::pair("ram", s.tiers.ram_bytes), std::pair("disk", s.tiers.disk_bytes)})
    families.gauge("tier_bytes", "Bytes of a tier in use.", model, static_cast<double>(n), {{"tier", tier}});
  count("tier_failures_total", "Files of the tiers that were damaged, or could not be read or written.",
        s.tiers.n_failures);
  count("recomputed_tokens_total", "Tokens computed again after a preemption or a failure.",
        s.n_recomputed_tokens);
  count("generation_tokens_total", "Tokens generated.", s.n_generated_tokens);
  count("spec_decode_num_draft_tokens_total", "Tokens drafted.", s.n_drafted_tokens);
  count("spec_decode_num_accepted_tokens_total", "Drafted tokens that were accepted.", s.n_accepted_tokens);
  count("num_preemptions_total", "Preemptions of running completions.", s.n_preempted);
  count("evictions_total", "Finished sequences evicted from the cache.", s.n_evicted);
  count("steps_total", "Steps.", s.n_steps);
  count("failed_steps_total", "Steps that failed in a device or for lack of memory.", s.n_failed_steps);
  families.counter("host_seconds_total", "Time of steps outside the model.", model, s.host_seconds);
  families.counter("decode_seconds_total", "Time of steps in the model.", model, s.decode_seconds);
  families.histogram("request_queue_time_seconds", "From the request until it ran first.", model, s.queue);
  families.histogram("time_to_first_token_seconds", "From the request to its first token.", model,
                     s.first_token);
  families.histogram("inter_token_latency_seconds", "Between two tokens of a completion.", model,
                     s.between_tokens);
  families.histogram("step_seconds", "Of one step of the batch.", model, s.step);
}

void add_transcriber(Families& families, const std::string& model, const TranscriptionStats& s) {
  for (const auto& [reason, n] : {std::pair("completed", s.n_completed),
                                  std::pair("cancelled", s.n_cancelled), std::pair("error", s.n_errors)})
    families.counter("transcriptions_total", "Transcriptions by how they ended.", model,
                     static_cast<double>(n), {{"reason", reason}});
  families.counter("transcription_audio_seconds_total", "Length of the audio that was transcribed.", model,
                   s.audio_seconds);
  families.counter("transcription_seconds_total", "Time of transcriptions, without the queue.", model,
                   s.seconds);
}

/// The numbers that dashboards of llama.cpp's server read, as far as weft counts the same.
void add_for_llama_cpp(Families& families, const std::string& model, const BatcherStats& s) {
  const auto count = [&](const char* name, const char* help, std::int64_t value) {
    families.counter(name, help, model, static_cast<double>(value));
  };
  count("prompt_tokens_total", "Tokens of prompts, computed.", s.n_prompt_tokens);
  count("tokens_predicted_total", "Tokens generated.", s.n_generated_tokens);
  count("n_decode_total", "Steps.", s.n_steps);
  count("n_tokens_max", "Most cells of the cache in use.", s.cells_peak);
  families.gauge("requests_processing", "Completions that are computed.", model, s.n_running);
  families.gauge("requests_deferred", "Completions in the queue.", model, s.n_waiting);
  families.gauge("kv_cache_usage_ratio", "Share of the cache's cells in use, 0 to 1.", model,
                 s.cells_total > 0 ? static_cast<double>(s.cells_used) / s.cells_total : 0.0);
  families.gauge("kv_cache_tokens", "Cells of the cache in use.", model, s.cells_used);
}

}  // namespace

std::string metrics_text(const std::vector<ModelState>& models, const HttpCounts& http) {
  Families families("weft:"), for_llama_cpp("llamacpp:");
  for (const ModelState& state : models) {
    families.gauge("model_loaded", "Whether the model is in memory.", state.name,
                   state.model != nullptr ? 1 : 0);
    if (state.model != nullptr && state.model->transcriber != nullptr)
      add_transcriber(families, state.name, state.model->transcriptions());
    if (state.model == nullptr || !state.model->service) continue;
    const BatcherStats stats = state.model->service->stats();
    add_model(families, state.name, stats);
    add_for_llama_cpp(for_llama_cpp, state.name, stats);
  }
  families.gauge("http_connections", "Open connections.", "", http.n_open);
  families.gauge("http_requests_in_flight", "Requests in progress.", "", http.n_busy);
  families.counter("http_connections_total", "Connections accepted.", "",
                   static_cast<double>(http.n_accepted));
  families.counter("http_requests_total", "Requests read.", "", static_cast<double>(http.n_requests));
  families.counter("http_malformed_total", "Malformed requests, refused by the HTTP server.", "",
                   static_cast<double>(http.n_malformed));
  return families.text() + for_llama_cpp.text();
}

}  // namespace weft::server
