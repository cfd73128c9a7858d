#include "json.h"

#include <utility>

#include "api/error.h"
#include "base/json.h"

namespace weft::server {

Json parse_json(std::string_view text) {
  try {
    return base::parse_json<Json>(text, {.depth = 128, .n_values = std::size_t{1} << 22});
  } catch (const base::JsonError& error) {
    throw bad_request("", std::string("the body: ") + error.what());
  }
}

std::optional<Json> parse_object(std::string_view text) try {
  Json json = parse_json(text);
  return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
} catch (const ApiError&) {
  return std::nullopt;
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string json_text(std::string_view text) { return to_text(Json(text)); }

}  // namespace weft::server
