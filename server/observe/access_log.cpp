#include "observe/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "json.h"
#include "weft/error.h"

namespace weft::server {
namespace {

std::string time_text() {
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     ms);
}

/// Unbuffered: stdio would keep a line that failed and write it before the next one.
std::FILE* open_log(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  if (file != nullptr) std::setvbuf(file, nullptr, _IONBF, 0);
  return file;
}

}  // namespace

AccessLog::AccessLog(const std::string& path, Warn warn)
    : path_(path), warn_(std::move(warn)), file_(path == "-" ? stderr : open_log(path)) {
  if (file_ == nullptr) throw Error(ErrorCode::kIo, fmt::format("cannot write the access log '{}'", path));
}

AccessLog::~AccessLog() {
  if (file_ != stderr) std::fclose(file_);
}

bool AccessLog::reopen() {
  if (file_ == stderr) return true;
  std::FILE* const file = open_log(path_);
  if (file == nullptr) return false;
  const std::lock_guard lock(mutex_);
  std::fclose(std::exchange(file_, file));
  return true;
}

void AccessLog::add(const AccessRecord& record) {
  constexpr std::size_t kMostForwarded = 256;
  const HttpRequest& request = record.request;
  Json json = {{"time", time_text()},
               {"id", record.id},
               {"peer", request.peer},
               {"method", request.method},
               {"path", request.path},
               {"status", record.outcome.status},
               {"bytes_in", request.body.size()},
               {"bytes_out", record.n_bytes},
               {"ms", std::round(record.ms * 1000.0) / 1000.0}};
  if (!request.scheme.empty()) json["scheme"] = request.scheme;
  if (!request.address.empty()) json["client"] = request.address;
  // Not only from trusted proxies: any client can send it.
  if (const std::string_view chain = request.header("X-Forwarded-For"); !chain.empty())
    json["forwarded_for"] = chain.substr(0, kMostForwarded);
  if (!record.key.empty()) json["key"] = record.key;
  if (!record.model.empty()) json["model"] = record.model;
  if (!record.outcome.error.empty()) json["error"] = record.outcome.error;
  if (!record.outcome.completions.empty()) {
    int n_generated = 0;
    for (const CompletionStats& stats : record.outcome.completions) n_generated += stats.n_generated;
    const CompletionStats& first = record.outcome.completions.front();
    json["prompt_tokens"] = first.n_prompt;
    json["cached_tokens"] = first.n_cached;
    json["completion_tokens"] = n_generated;
    json["queue_ms"] = first.queue_ms;
    json["first_token_ms"] = first.first_token_ms;
  }
  std::string line = to_text(json) + "\n";
  bool begins_to_lose = false;
  {
    const std::lock_guard lock(mutex_);
    if (loses_lines_) line.insert(0, "\n");  // Ends the line that was cut.
    const bool lost = std::fwrite(line.data(), 1, line.size(), file_) != line.size();
    if (lost) std::clearerr(file_);
    begins_to_lose = lost && !loses_lines_;
    loses_lines_ = lost;
  }
  if (begins_to_lose && warn_) warn_(fmt::format("cannot write the access log '{}'; lines are lost", path_));
}

}  // namespace weft::server
