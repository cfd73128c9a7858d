#include "chat/request_json.h"

#include <vector>

#include "chat/json_scanner.h"

namespace weft::chat {

namespace {

/// Objects that keep their order look for a key among all others: more would take too long.
constexpr std::size_t kMaxMembers = 4096;

}  // namespace

nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what) {
  using nlohmann::ordered_json;
  // The scanner bounds the nesting, and lets through only what can be written again.
  if (!is_json(text)) {
    refuse(std::string(what) + " must be JSON in UTF-8, nested at most " +
           std::to_string(JsonScanner::kMaxDepth) + " levels deep");
  }
  std::vector<std::size_t> n_members;  // Of each open object.
  const auto count = [&](int, ordered_json::parse_event_t event, ordered_json&) {
    if (event == ordered_json::parse_event_t::object_start) n_members.push_back(0);
    if (event == ordered_json::parse_event_t::object_end) n_members.pop_back();
    if (event == ordered_json::parse_event_t::key && ++n_members.back() > kMaxMembers) {
      refuse(std::string(what) + " has an object with more than " + std::to_string(kMaxMembers) + " members");
    }
    return true;
  };
  ordered_json value = ordered_json::parse(text, count, false);
  if (value.is_discarded()) refuse(std::string(what) + " has a number that is too large");
  return value;
}

}  // namespace weft::chat
