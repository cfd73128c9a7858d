#include "api/stored_responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

namespace weft::server {
namespace {

ApiError not_stored(const Job& job, const std::string& id, bool is_previous) {
  const StoreLimits& limits = job.responses->limits();
  const std::string why = limits.n_responses == 0
                              ? "it was started with --stored-responses 0"
                              : fmt::format("it keeps the last {} responses, at most {} MiB, until it ends",
                                            limits.n_responses, limits.bytes >> 20);
  return {404, "invalid_request_error", is_previous ? "previous_response_not_found" : "response_not_found",
          is_previous ? "previous_response_id" : "response_id",
          fmt::format("this server does not have the response '{}': {}{}", id.substr(0, 64), why,
                      is_previous ? "; send the whole conversation as 'input'" : "")};
}

/// The rest of the path after "/responses/": an id, and the path below it.
std::pair<std::string, std::string> id_of_path(const Job& job) {
  const std::string& path = job.exchange->request().path;
  constexpr std::string_view kFolder = "/responses/";
  std::string id = path.substr(path.find(kFolder) + kFolder.size());
  const std::size_t slash = std::min(id.find('/'), id.size());
  std::string below = id.substr(std::min(slash + 1, id.size()));
  id.resize(slash);
  return {std::move(id), std::move(below)};
}

std::shared_ptr<const StoredResponse> stored(const Job& job, const std::string& id, bool is_previous) {
  auto found = job.responses->find(job.owner, id);
  if (found == nullptr) throw not_stored(job, id, is_previous);
  return found;
}

int read_limit(const HttpRequest& request) {
  constexpr int kUsual = 20, kMost = 100;
  const std::string text = request.query_value("limit");
  if (text.empty()) return kUsual;
  int limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc{} || end != text.data() + text.size() || limit < 1 || limit > kMost)
    throw bad_request("limit", fmt::format("'limit' must be from 1 to {}", kMost));
  return limit;
}

/// A page of the items, the newest first unless the client wants the oldest first.
void send_items(Job& job, const StoredResponse& response) {
  const HttpRequest& request = job.exchange->request();
  const int limit = read_limit(request);
  Json items = parse_json(response.items);
  if (request.query_value("order") != "asc") std::reverse(items.begin(), items.end());
  auto at = items.begin();
  if (const std::string after = request.query_value("after"); !after.empty()) {
    at = std::find_if(items.begin(), items.end(), [&](const Json& item) { return item["id"] == after; });
    if (at == items.end())
      throw bad_request("after", fmt::format("there is no item '{}'", after.substr(0, 64)));
    ++at;
  }
  const auto n = std::min<std::ptrdiff_t>(limit, items.end() - at);
  const bool has_more = n < items.end() - at;
  Json data = Json::array();
  for (std::ptrdiff_t i = 0; i < n; ++i) data.push_back(std::move(*at++));
  Json first, last;
  if (!data.empty()) {
    first = data.front()["id"];
    last = data.back()["id"];
  }
  job.send({{"object", "list"},
            {"data", std::move(data)},
            {"first_id", std::move(first)},
            {"last_id", std::move(last)},
            {"has_more", has_more}});
}

/// The items of a request's input: a string is a message of the user.
Json items_of(Json input) {
  if (input.is_string()) return Json::array({{{"role", "user"}, {"content", std::move(input)}}});
  return input;
}

/// Items of stored responses, which are parsed once.
class ItemFinder {
 public:
  explicit ItemFinder(const Job& job) : job_(&job) {}

  /// Null if it is not stored.
  const Json* find(const std::string& id) {
    if (const auto found = items_.find(id); found != items_.end()) return &found->second;
    const auto response = job_->responses->find_item(job_->owner, id);
    if (response == nullptr) return nullptr;
    Json parsed = parse_json(response->response);
    for (Json& item : parsed["output"]) items_.emplace(item["id"].get<std::string>(), std::move(item));
    const auto found = items_.find(id);
    return found == items_.end() ? nullptr : &found->second;
  }

 private:
  const Job* job_;
  std::unordered_map<std::string, Json> items_;
};

void replace_references(const Job& job, Json& items) {
  ItemFinder finder(job);
  for (Json& item : items) {
    if (!item.is_object() || item.value("type", Json("")) != "item_reference") continue;
    const auto id = item.find("id");
    if (id == item.end() || !id->is_string()) continue;
    if (const Json* const found = finder.find(id->get<std::string>())) item = Json(*found);
  }
}

}  // namespace

void show_response(Job& job) {
  const auto [id, below] = id_of_path(job);
  const auto response = stored(job, id, false);
  if (below == "input_items") return send_items(job, *response);
  if (!below.empty())
    throw ApiError(404, "invalid_request_error", "not_found", "",
                   "a response has only 'input_items' below it");
  job.exchange->send({.body = response->response, .headers = job.headers()});
}

void delete_response(Job& job) {
  const std::string id = id_of_path(job).first;
  if (!job.responses->remove(job.owner, id)) throw not_stored(job, id, false);
  job.send({{"id", id}, {"object", "response"}, {"deleted", true}});
}

bool takes_store(Job& job) {
  // Clients expect that responses are stored unless they say otherwise.
  const bool wants = Fields(job.body).boolean("store", true);
  job.body.erase("store");
  return wants && job.responses->limits().n_responses > 0;
}

void continue_previous(Job& job) {
  const std::string id = Fields(job.body).string("previous_response_id");
  const auto own = job.body.find("input");
  if (own == job.body.end() || !(own->is_string() || own->is_array())) return;
  if (own->is_array()) replace_references(job, *own);
  if (id.empty()) return;
  const auto previous = stored(job, id, true);
  Json items = parse_json(previous->items);
  Json response = parse_json(previous->response);
  for (Json& item : response["output"]) items.push_back(std::move(item));
  for (Json& item : items_of(std::move(*own))) items.push_back(std::move(item));
  job.body["input"] = std::move(items);
}

bool store_response(ResponseStore& store, const std::string& owner, const Json& response, std::string items) {
  StoredResponse stored{.response = to_text(response), .items = std::move(items)};
  for (const Json& item : response["output"]) stored.item_ids.push_back(item["id"].get<std::string>());
  return store.add(owner, response["id"].get<std::string>(), std::move(stored));
}

std::string items_to_store(const Json& input) {
  Json items = items_of(input);
  for (Json& item : items) {
    if (!item.is_object()) continue;
    if (!item.contains("type")) item["type"] = "message";
    if (!item.contains("id") || !item["id"].is_string())
      item["id"] = make_id(item["type"] == "message" ? "msg_" : "item_");
    // As OpenAI returns messages: with parts.
    if (const auto content = item.find("content"); content != item.end() && content->is_string()) {
      const bool is_answer = item.contains("role") && item["role"] == "assistant";
      *content = Json::array({{{"type", is_answer ? "output_text" : "input_text"}, {"text", *content}}});
    }
  }
  return to_text(items);
}

}  // namespace weft::server
