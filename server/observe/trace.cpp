#include "observe/trace.h"

#include <fmt/format.h>

#include "json.h"
#include "weft/error.h"

namespace weft::server {
namespace {

constexpr int kSteps = 1;  // "processes" of the drawing
constexpr int kRequests = 2;
/// Requests are drawn in so many rows.
constexpr int kRows = 64;

Json span(std::string_view name, int process, int row, double at_us, double us) {
  return {{"name", name}, {"ph", "X"}, {"pid", process}, {"tid", row}, {"ts", at_us}, {"dur", us}};
}

}  // namespace

Trace::Trace(const std::string& path) : file_(std::fopen(path.c_str(), "we")) {
  if (file_ == nullptr) throw Error(ErrorCode::kIo, fmt::format("cannot write the trace '{}'", path));
  std::fputs("[\n", file_);
  for (const auto& [process, name] : {std::pair(kSteps, "steps"), std::pair(kRequests, "requests")})
    write(to_text({{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", {{"name", name}}}}));
}

Trace::~Trace() {
  // Strict JSON has no comma behind the last one.
  if (std::fseek(file_, -2, SEEK_END) == 0) std::fputs("\n]\n", file_);
  std::fclose(file_);
}

double Trace::us(std::chrono::steady_clock::time_point time) const {
  return std::chrono::duration<double, std::micro>(time - start_).count();
}

void Trace::write(const std::string& event) {
  const std::lock_guard lock(mutex_);
  std::fwrite(event.data(), 1, event.size(), file_);
  std::fputs(",\n", file_);
}

void Trace::step(const std::string& model, const StepRecord& record) {
  Json json = span("step", kSteps, 1, us(record.begin), us(record.end) - us(record.begin));
  json["args"] = {{"gen_ai.request.model", model},   {"n_prompt", record.n_prompt},
                  {"n_decoded", record.n_generated}, {"n_drafted", record.n_drafted},
                  {"n_accepted", record.n_accepted}, {"n_streams", record.n_streams},
                  {"decode_ms", record.decode_ms},   {"failed", record.failed}};
  write(to_text(json));
}

void Trace::request(const std::string& id, const std::string& path, const std::string& model,
                    std::chrono::steady_clock::time_point begin, const Outcome& outcome) {
  int row = 0;
  {
    const std::lock_guard lock(mutex_);
    row = n_requests_++ % kRows;
  }
  const double at = us(begin);
  Json json = span(path, kRequests, row, at, us(std::chrono::steady_clock::now()) - at);
  Json arguments = {{"gen_ai.response.id", id}, {"gen_ai.request.model", model}, {"status", outcome.status}};
  if (!outcome.error.empty()) arguments["error.type"] = outcome.error;
  if (!outcome.completions.empty()) {
    const CompletionStats& stats = outcome.completions.front();
    arguments["gen_ai.usage.input_tokens"] = stats.n_prompt;
    arguments["gen_ai.usage.output_tokens"] = stats.n_generated;
    arguments["cached_tokens"] = stats.n_cached;
  }
  json["args"] = std::move(arguments);
  write(to_text(json));
  if (outcome.completions.empty()) return;
  const CompletionStats& stats = outcome.completions.front();
  // The request's own times begin when it was submitted, shortly behind `begin`.
  write(to_text(span("queue", kRequests, row, at, stats.queue_ms * 1000.0)));
  if (stats.first_token_ms <= 0.0) return;
  write(to_text(span("prompt", kRequests, row, at + stats.queue_ms * 1000.0,
                     (stats.first_token_ms - stats.queue_ms) * 1000.0)));
  write(to_text(span("answer", kRequests, row, at + stats.first_token_ms * 1000.0,
                     (stats.total_ms - stats.first_token_ms) * 1000.0)));
}

}  // namespace weft::server
