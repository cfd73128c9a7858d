#include "chat/request_json.h"

namespace weft::chat {

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

}  // namespace weft::chat
