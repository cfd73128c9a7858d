#pragma once
// JSON for stdout: keys keep their order of insertion, and invalid UTF-8 is replaced.
#include <nlohmann/json.hpp>
#include <string>

namespace weft::cli {

using Json = nlohmann::ordered_json;

/// Bytes that are not UTF-8 become U+FFFD. Ends with a newline. indent < 0: one line.
inline std::string to_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft::cli
