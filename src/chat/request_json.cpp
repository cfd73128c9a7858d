#include "chat/request_json.h"

#include "chat/json_scanner.h"

namespace weft::chat {

nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what) {
  // The scanner bounds the nesting, and lets through only what can be written again.
  if (!is_json(text)) {
    refuse(std::string(what) + " must be JSON in UTF-8, nested at most " +
           std::to_string(JsonScanner::kMaxDepth) + " levels deep");
  }
  nlohmann::ordered_json value = nlohmann::ordered_json::parse(text, nullptr, false);
  if (value.is_discarded()) refuse(std::string(what) + " has a number that is too large");
  return value;
}

}  // namespace weft::chat
