#include "files/batch_endpoints.h"

#include <fmt/format.h>

#include <utility>

#include "files/batch_input.h"
#include "files/file_endpoints.h"
#include "files/files.h"

namespace weft::server {
namespace {

constexpr std::string_view kBatchesFolder = "/v1/batches/";
constexpr std::size_t kUsualBatches = 20, kMostBatches = 100;
// OpenAI's limits of metadata.
constexpr std::size_t kMostPairs = 16, kMostNameBytes = 64, kMostValueBytes = 512;
constexpr std::size_t kMostWindowBytes = 32;

ApiError no_batch(const std::string& id) {
  return {404, "invalid_request_error", "batch_not_found", "batch_id",
          fmt::format("there is no batch '{}'", id.substr(0, 64))};
}

Json read_metadata(Fields& fields) {
  const Json* const metadata = fields.object("metadata");
  if (metadata == nullptr) return nullptr;
  if (metadata->size() > kMostPairs)
    throw bad_request("metadata", fmt::format("'metadata' may have at most {} members", kMostPairs));
  for (const auto& [name, value] : metadata->items())
    if (name.size() > kMostNameBytes || !value.is_string() ||
        value.get_ref<const std::string&>().size() > kMostValueBytes)
      throw bad_request(
          "metadata", fmt::format("'metadata' must have names of at most {} bytes and strings of at most {}",
                                  kMostNameBytes, kMostValueBytes));
  return *metadata;
}

}  // namespace

void create_batch(Job& job) {
  Files& files = files_of(job);
  Fields fields(job.body, "", &job.ignored);
  Batch batch;
  batch.owner = job.key;
  batch.input_file = fields.string("input_file_id");
  batch.endpoint = fields.string("endpoint");
  batch.window = fields.string("completion_window", "24h");
  batch.metadata = read_metadata(fields);
  fields.without_effect("output_expires_after");
  fields.done();
  if (!is_batch_endpoint(batch.endpoint))
    throw bad_request("endpoint", fmt::format("'endpoint' must be one of {}", batch_endpoints()));
  if (batch.window.empty() || batch.window.size() > kMostWindowBytes)
    throw bad_request("completion_window", "'completion_window' must be a time such as \"24h\"");
  const std::lock_guard lock(files.inputs);
  const auto input = files.store.find(job.viewer, batch.input_file);
  if (!input)
    throw ApiError(404, "invalid_request_error", "file_not_found", "input_file_id",
                   fmt::format("there is no file '{}'", batch.input_file.substr(0, 64)));
  if (input->purpose != "batch")
    throw bad_request("input_file_id",
                      fmt::format("the purpose of the input file must be 'batch', not '{}'", input->purpose));
  job.send(batch_json(files.batches.create(std::move(batch))));
}

void list_batches(Job& job) {
  const Page<Batch> page = files_of(job).batches.list(
      read_list_query(job.exchange->request(), kUsualBatches, kMostBatches), job.viewer);
  Json data = Json::array();
  for (const Batch& batch : page.records) data.push_back(batch_json(batch));
  job.send(list_json(std::move(data), page.has_more));
}

void show_batch(Job& job) {
  const auto [id, below] = id_below(job, kBatchesFolder);
  const auto batch = files_of(job).batches.find(job.viewer, id);
  if (!batch || !below.empty()) throw no_batch(id + (below.empty() ? "" : "/" + below));
  job.send(batch_json(*batch));
}

void act_on_batch(Job& job) {
  const auto [id, below] = id_below(job, kBatchesFolder);
  Files& files = files_of(job);
  if (below != "cancel")
    throw ApiError(404, "invalid_request_error", "not_found", "", "a batch has only 'cancel' below it");
  const auto batch = files.batches.cancel(job.viewer, id);
  if (!batch) throw no_batch(id);
  if (batch->ended() && batch->status != BatchStatus::kCancelled)
    throw ApiError(409, "invalid_request_error", "batch_ended", "batch_id",
                   fmt::format("the batch '{}' has ended and cannot be cancelled", id));
  job.send(batch_json(*batch));
}

}  // namespace weft::server
