#include "observe/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "json.h"
#include "weft/error.h"

namespace weft::server {
namespace {

constexpr int kSteps = 1;  // "processes" of the drawing
constexpr int kRequests = 2;
constexpr std::string_view kEnd = "\n]\n";  ///< Of the file.
/// Rows in which requests are drawn.
constexpr int kRows = 64;

Json span(std::string_view name, int process, int row, double at_us, double us) {
  return {{"name", name}, {"ph", "X"}, {"pid", process}, {"tid", row}, {"ts", at_us}, {"dur", us}};
}

}  // namespace

Trace::Trace(std::string path, Warn warn, std::int64_t max_bytes)
    : path_(std::move(path)), warn_(std::move(warn)), max_bytes_(max_bytes) {
  begin();
}

void Trace::begin() {
  file_.emplace(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file_->get() < 0) throw Error(ErrorCode::kIo, fmt::format("cannot write the trace '{}'", path_));
  end_ = 0;
  std::string names;
  for (const auto& [process, name] : {std::pair(kSteps, "steps"), std::pair(kRequests, "requests")})
    names += (names.empty() ? "[\n" : ",\n") +
             to_text({{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", {{"name", name}}}});
  if (!append(names)) throw Error(ErrorCode::kIo, fmt::format("cannot write the trace '{}'", path_));
}

/// Writes the event and the end of the array in one call. If a full disk cuts it off, the file is restored.
bool Trace::append(std::string_view text) {
  const std::string whole = std::string(text).append(kEnd);
  if (::pwrite(file_->get(), whole.data(), whole.size(), end_) == static_cast<ssize_t>(whole.size())) {
    end_ += static_cast<std::int64_t>(text.size());
    return true;
  }
  if (end_ > 0 && ::pwrite(file_->get(), kEnd.data(), kEnd.size(), end_) == static_cast<ssize_t>(kEnd.size()))
    (void)!::ftruncate(file_->get(), end_ + static_cast<std::int64_t>(kEnd.size()));
  return false;
}

double Trace::us(std::chrono::steady_clock::time_point time) const {
  return std::chrono::duration<double, std::micro>(time - start_).count();
}

void Trace::write(const std::string& event) {
  bool begins_to_lose = false;
  {
    const std::lock_guard lock(mutex_);
    bool written = false;
    try {
      const auto is_moved = [&] {
        return ::rename(path_.c_str(), (path_ + ".old").c_str()) == 0 || errno == ENOENT;
      };
      if (end_ >= max_bytes_ && is_moved()) end_ = 0;
      if (end_ == 0) begin();
      written = end_ < max_bytes_ && append(",\n" + event);
    } catch (const Error&) {  // Neither the new file nor the old one: a later event tries again.
    }
    begins_to_lose = !written && !loses_events_;
    loses_events_ = !written;
  }
  if (begins_to_lose && warn_) warn_(fmt::format("cannot write the trace '{}'; events are lost", path_));
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
  // The request's own times begin with its submission, shortly after `begin`.
  write(to_text(span("queue", kRequests, row, at, stats.queue_ms * 1000.0)));
  if (stats.first_token_ms <= 0.0) return;
  write(to_text(span("prompt", kRequests, row, at + stats.queue_ms * 1000.0,
                     (stats.first_token_ms - stats.queue_ms) * 1000.0)));
  write(to_text(span("answer", kRequests, row, at + stats.first_token_ms * 1000.0,
                     (stats.total_ms - stats.first_token_ms) * 1000.0)));
}

}  // namespace weft::server
