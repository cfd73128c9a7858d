#include "chat/request_json.h"

#include <optional>
#include <utility>

#include "base/json.h"
#include "chat/json_scanner.h"

namespace weft::chat {

namespace {

using nlohmann::ordered_json;

constexpr base::JsonLimits kLimits{.depth = 100, .n_members = 16'384};

std::optional<ordered_json> parsed(std::string_view text) {
  return base::try_parse_json<ordered_json>(text, kLimits);
}

/// Merges the objects that the string begins with. An object that was cut is closed. Nothing: no object.
std::optional<ordered_json> objects_in_row(std::string_view text) {
  std::string members;  // Merging trees instead would compare each key with all earlier ones.
  bool found = false;
  for (std::string_view rest = trimmed(text); !rest.empty() && rest.front() == '{'; rest = trimmed(rest)) {
    JsonScanner scanner;
    std::string document;
    auto step = JsonScanner::Step::kMore;
    std::size_t n = 0;
    while (n < rest.size() && step == JsonScanner::Step::kMore) step = scanner.feed(rest[n++], document);
    if (step == JsonScanner::Step::kMore) scanner.complete(document);
    if (step == JsonScanner::Step::kBad || !parsed(document)) break;
    found = true;
    const std::string_view inner = trimmed(std::string_view(document).substr(1, document.rfind('}') - 1));
    if (!members.empty() && !inner.empty()) members += ',';
    members += inner;
    rest.remove_prefix(n);
  }
  return found ? parsed("{" + members + "}") : std::nullopt;
}

}  // namespace

nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what) {
  try {
    return base::parse_json<ordered_json>(text, kLimits);
  } catch (const base::JsonError& error) {
    refuse(std::string(what) + ": " + error.what());
  }
}

ordered_json history_arguments(const ordered_json& arguments) {
  if (arguments.is_object()) return arguments;
  if (arguments.is_null() || arguments.empty()) return ordered_json::object();
  if (!arguments.is_string()) return {{"input", arguments.dump()}};
  const std::string& text = arguments.get_ref<const std::string&>();
  std::optional<ordered_json> value = parsed(text);
  // Some clients encode the string once more.
  if (value && value->is_string()) value = parsed(value->get<std::string>());
  if (value && value->is_object()) return *std::move(value);
  if (trimmed(text).empty() || (value && value->empty())) return ordered_json::object();
  if (auto objects = objects_in_row(text)) return *std::move(objects);
  return {{"input", text}};
}

}  // namespace weft::chat
