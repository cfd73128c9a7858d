#include "files/batch.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace weft::server {
namespace {

constexpr std::array<std::pair<BatchStatus, std::string_view>, 7> kStatuses = {{
    {BatchStatus::kValidating, "validating"},
    {BatchStatus::kFailed, "failed"},
    {BatchStatus::kInProgress, "in_progress"},
    {BatchStatus::kFinalizing, "finalizing"},
    {BatchStatus::kCompleted, "completed"},
    {BatchStatus::kCancelling, "cancelling"},
    {BatchStatus::kCancelled, "cancelled"},
}};

/// The times by their names in the object.
constexpr std::array<std::pair<const char*, std::int64_t Batch::*>, 6> kTimes = {{
    {"in_progress_at", &Batch::in_progress_at},
    {"finalizing_at", &Batch::finalizing_at},
    {"completed_at", &Batch::completed_at},
    {"failed_at", &Batch::failed_at},
    {"cancelling_at", &Batch::cancelling_at},
    {"cancelled_at", &Batch::cancelled_at},
}};

std::string_view status_name(BatchStatus status) {
  return std::find_if(kStatuses.begin(), kStatuses.end(),
                      [&](const auto& row) { return row.first == status; })
      ->second;
}

template <typename T>
Json unless_empty(const T& value) {
  return value == T() ? Json() : Json(value);
}

Json errors_json(const std::vector<BatchError>& errors) {
  if (errors.empty()) return nullptr;
  Json data = Json::array();
  for (const BatchError& error : errors)
    data.push_back({{"code", error.code},
                    {"line", error.line ? Json(*error.line) : Json()},
                    {"message", error.message},
                    {"param", unless_empty(error.param)}});
  return {{"object", "list"}, {"data", std::move(data)}};
}

/// The member as a T; T() for null.
template <typename T>
T member(const Json& json, const char* name) {
  const Json& value = json.at(name);
  return value.is_null() ? T() : value.get<T>();
}

}  // namespace

Json batch_json(const Batch& batch) {
  const bool ended = batch.ended();
  Json json = {{"id", batch.id},
               {"object", "batch"},
               {"endpoint", batch.endpoint},
               {"errors", errors_json(batch.errors)},
               {"input_file_id", batch.input_file},
               {"completion_window", batch.window},
               {"status", status_name(batch.status)},
               {"output_file_id", ended ? unless_empty(batch.output_file) : Json()},
               {"error_file_id", ended ? unless_empty(batch.error_file) : Json()},
               {"created_at", batch.created_ns / 1'000'000'000},
               {"expires_at", nullptr},
               {"expired_at", nullptr}};
  for (const auto& [name, time] : kTimes) json[name] = unless_empty(batch.*time);
  json["request_counts"] = {
      {"total", batch.n_total}, {"completed", batch.n_completed}, {"failed", batch.n_failed}};
  json["metadata"] = batch.metadata;
  return json;
}

Json batch_state(const Batch& batch) {
  Json json = batch_json(batch);
  json["output_file_id"] = unless_empty(batch.output_file);
  json["error_file_id"] = unless_empty(batch.error_file);
  json["owner"] = batch.owner;
  json["created_ns"] = batch.created_ns;
  return json;
}

Batch batch_from(const std::string& id, const Json& state) {
  Batch batch{.id = id,
              .owner = state.at("owner").get<std::string>(),
              .created_ns = state.at("created_ns").get<std::int64_t>(),
              .endpoint = state.at("endpoint").get<std::string>(),
              .input_file = state.at("input_file_id").get<std::string>(),
              .window = state.at("completion_window").get<std::string>(),
              .metadata = state.at("metadata"),
              .output_file = member<std::string>(state, "output_file_id"),
              .error_file = member<std::string>(state, "error_file_id")};
  const auto status = state.at("status").get<std::string>();
  const auto found =
      std::find_if(kStatuses.begin(), kStatuses.end(), [&](const auto& row) { return row.second == status; });
  if (found == kStatuses.end()) throw Json::type_error::create(302, "unknown status " + status, &state);
  batch.status = found->first;
  const Json& counts = state.at("request_counts");
  batch.n_total = counts.at("total").get<std::size_t>();
  batch.n_completed = counts.at("completed").get<std::size_t>();
  batch.n_failed = counts.at("failed").get<std::size_t>();
  for (const auto& [name, time] : kTimes) batch.*time = member<std::int64_t>(state, name);
  if (const Json& errors = state.at("errors"); !errors.is_null())
    for (const Json& error : errors.at("data")) {
      BatchError& added = batch.errors.emplace_back();
      added.code = member<std::string>(error, "code");
      added.message = member<std::string>(error, "message");
      added.param = member<std::string>(error, "param");
      if (!error.at("line").is_null()) added.line = error.at("line").get<std::size_t>();
    }
  return batch;
}

}  // namespace weft::server
