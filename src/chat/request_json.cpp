#include "chat/request_json.h"

#include <optional>
#include <utility>

#include "chat/json_scanner.h"

namespace weft::chat {

namespace {

using nlohmann::ordered_json;

std::optional<ordered_json> parsed(std::string_view text, base::JsonBudget& budget) {
  try {
    return base::parse_json<ordered_json>(text, budget);
  } catch (const base::JsonError&) {
    return std::nullopt;
  }
}

/// Merges the objects that the string begins with. An object that was cut is closed. Nothing: no object.
std::optional<ordered_json> objects_in_row(std::string_view text, base::JsonBudget& budget) {
  std::optional<ordered_json> all;
  for (std::string_view rest = trimmed(text); !rest.empty() && rest.front() == '{'; rest = trimmed(rest)) {
    JsonScanner scanner;
    std::string document;
    auto step = JsonScanner::Step::kMore;
    std::size_t n = 0;
    while (n < rest.size() && step == JsonScanner::Step::kMore) step = scanner.feed(rest[n++], document);
    if (step == JsonScanner::Step::kMore) scanner.complete(document);
    if (step == JsonScanner::Step::kBad) break;
    const auto object = parsed(document, budget);
    if (!object) break;
    if (!all) all = ordered_json::object();
    // update() compares each key with all earlier ones.
    const std::size_t cost = all->size() * object->size();
    if (cost > budget.n_comparisons) break;
    budget.n_comparisons -= cost;
    all->update(*object);
    rest.remove_prefix(n);
  }
  return all;
}

}  // namespace

nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what,
                                          base::JsonBudget& budget) {
  try {
    return base::parse_json<nlohmann::ordered_json>(text, budget);
  } catch (const base::JsonError& error) {
    refuse(std::string(what) + ": " + error.what());
  }
}

nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what) {
  base::JsonBudget budget = request_budget();
  return parse_request_json(text, what, budget);
}

ordered_json history_arguments(const ordered_json& arguments, base::JsonBudget& budget) {
  if (arguments.is_object()) return arguments;
  if (arguments.is_null() || arguments.empty()) return ordered_json::object();
  if (!arguments.is_string()) return {{"input", arguments.dump()}};
  const std::string& text = arguments.get_ref<const std::string&>();
  std::optional<ordered_json> value = parsed(text, budget);
  // Some clients encode the string once more.
  if (value && value->is_string()) value = parsed(value->get<std::string>(), budget);
  if (value && value->is_object()) return *std::move(value);
  if (trimmed(text).empty() || (value && value->empty())) return ordered_json::object();
  if (auto objects = objects_in_row(text, budget)) return *std::move(objects);
  return {{"input", text}};
}

}  // namespace weft::chat
