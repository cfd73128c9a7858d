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

}  // namespace

AccessLog::AccessLog(const std::string& path)
    : path_(path), file_(path == "-" ? stderr : std::fopen(path.c_str(), "ae")) {
  if (file_ == nullptr) throw Error(ErrorCode::kIo, fmt::format("cannot write the access log '{}'", path));
}

AccessLog::~AccessLog() {
  if (file_ != stderr) std::fclose(file_);
}

bool AccessLog::reopen() {
  if (file_ == stderr) return true;
  std::FILE* const file = std::fopen(path_.c_str(), "ae");
  if (file == nullptr) return false;
  const std::lock_guard lock(mutex_);
  std::fclose(std::exchange(file_, file));
  return true;
}

void AccessLog::add(const AccessRecord& record) {
  Json json = {{"time", time_text()},
               {"id", record.id},
               {"peer", record.peer},
               {"method", record.method},
               {"path", record.path},
               {"status", record.outcome.status},
               {"ms", std::round(record.ms * 1000.0) / 1000.0}};
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
  const std::string line = to_text(json) + "\n";
  const std::lock_guard lock(mutex_);
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
}

}  // namespace weft::server
