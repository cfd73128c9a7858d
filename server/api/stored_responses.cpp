#include "api/stored_responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "api/chat_order.h"

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

/// The items of a stored response's input.
Json input_of(const StoredResponse& response) {
  std::string json;
  for (const auto& items : response.input) json += (json.empty() ? "[" : ",") + items->json();
  return json.empty() ? Json::array() : parse_json(json + "]");
}

/// A page of the items, the newest first unless the client wants the oldest first.
void send_items(Job& job, const StoredResponse& response) {
  const HttpRequest& request = job.exchange->request();
  const int limit = read_limit(request);
  Json items = input_of(response);
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

  /// A copy of the item; nullopt if it is not stored. Throws ApiError if the copies and the responses that
  /// have them are larger than the largest body.
  std::optional<Json> copy(const std::string& id) {
    auto found = items_.find(id);
    if (found == items_.end()) {
      const auto response = job_->responses->find_item(job_->owner, id);
      if (response == nullptr) return std::nullopt;
      spend(response->response.size());
      Json parsed = parse_json(response->response);
      for (Json& item : parsed["output"]) {
        const std::size_t bytes = to_text(item).size();
        std::string item_id = item["id"].get<std::string>();
        items_.try_emplace(std::move(item_id), std::move(item), bytes);
      }
      found = items_.find(id);
      if (found == items_.end()) return std::nullopt;
    }
    spend(found->second.second);
    return found->second.first;
  }

 private:
  void spend(std::size_t bytes) {
    const std::size_t most = HttpParams{}.body_bytes;
    if ((spent_ += bytes) > most)
      throw bad_request("input",
                        fmt::format("'input' refers to more than {} MiB of stored items; continue their "
                                    "response with 'previous_response_id', or refer to fewer items",
                                    most >> 20));
  }

  const Job* job_;
  std::unordered_map<std::string, std::pair<Json, std::size_t>> items_;  ///< With their bytes as JSON.
  std::size_t spent_ = 0;
};

void replace_references(const Job& job, Json& items) {
  ItemFinder finder(job);
  for (Json& item : items) {
    if (!item.is_object() || item.value("type", Json("")) != "item_reference") continue;
    const auto id = item.find("id");
    if (id == item.end() || !id->is_string()) continue;
    if (auto found = finder.copy(id->get<std::string>())) item = *std::move(found);
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
  // Clients expect that responses are stored unless they say otherwise. Those of a batch are in its output,
  // and would replace all others.
  const bool wants = Fields(job.body).boolean("store", !job.is_background());
  job.body.erase("store");
  return wants && job.responses->limits().n_responses > 0;
}

Continued continue_previous(Job& job) {
  Fields fields(job.body);
  const std::string id = fields.string("previous_response_id");
  static_cast<void>(read_conversation(fields, "input"));  // Before references are replaced by copies.
  const auto own = job.body.find("input");
  if (own == job.body.end() || !(own->is_string() || own->is_array())) return {};
  if (own->is_array()) replace_references(job, *own);
  if (id.empty()) return {};
  Continued continued{.previous = stored(job, id, true)};
  Json items = input_of(*continued.previous);
  continued.n_items = items.size();
  Json response = parse_json(continued.previous->response);
  for (Json& item : response["output"]) items.push_back(std::move(item));
  for (Json& item : items_of(std::move(*own))) items.push_back(std::move(item));
  job.body["input"] = std::move(items);
  return continued;
}

bool store_response(ResponseStore& store, const std::string& owner, const Json& response,
                    std::vector<std::shared_ptr<const StoredItems>> input) {
  StoredResponse stored{.response = to_text(response), .input = std::move(input)};
  for (const Json& item : response["output"]) stored.item_ids.push_back(item["id"].get<std::string>());
  return store.add(owner, response["id"].get<std::string>(), std::move(stored));
}

namespace {

/// An item as it is stored: with a type, an id, and parts.
Json whole_item(Json item) {
  if (!item.is_object()) return item;
  if (!item.contains("type")) item["type"] = "message";
  if (!item.contains("id") || !item["id"].is_string())
    item["id"] = make_id(item["type"] == "message" ? "msg_" : "item_");
  // As OpenAI returns messages.
  if (const auto content = item.find("content"); content != item.end() && content->is_string()) {
    const bool is_answer = item.contains("role") && item["role"] == "assistant";
    *content = Json::array({{{"type", is_answer ? "output_text" : "input_text"}, {"text", *content}}});
  }
  return item;
}

}  // namespace

std::vector<std::shared_ptr<const StoredItems>> input_to_store(const Json& input,
                                                               const Continued& continued) {
  std::vector<std::shared_ptr<const StoredItems>> stored;
  if (continued.previous != nullptr) stored = continued.previous->input;
  const Json message = input.is_string() ? items_of(input) : Json();
  const Json& items = input.is_string() ? message : input;
  std::string json;
  for (std::size_t i = continued.n_items; i < items.size(); ++i)
    json += (json.empty() ? "" : ",") + to_text(whole_item(items[i]));
  if (!json.empty()) stored.push_back(std::make_shared<const StoredItems>(std::move(json)));
  return stored;
}

}  // namespace weft::server
