#pragma once
// JSON as the API reads and writes it. Objects keep their order. No input of a client or a model can end the
// process (depth, number of values, half a character).
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace weft::server {

using Json = nlohmann::ordered_json;

/// Throws ApiError 400 that names the byte of the error, or the limit that is exceeded.
Json parse_json(std::string_view text);
/// A JSON object; nullopt for anything else, such as arguments of a call that was cut.
std::optional<Json> parse_object(std::string_view text);

/// On one line; bytes that are no UTF-8 become U+FFFD.
std::string to_text(const Json& json);
/// The same for one string, with its quotes.
std::string json_text(std::string_view text);

}  // namespace weft::server
