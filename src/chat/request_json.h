#pragma once
// JSON of requests.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json.h"
#include "weft/error.h"

namespace weft::chat {

/// The budget of one request. Its messages and the arguments of all calls share it.
inline base::JsonBudget request_budget() { return {.depth = 100, .n_comparisons = std::size_t{1} << 27}; }

/// Throws Error kInvalidArgument for invalid JSON and an exceeded budget. `what` names the document.
nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what,
                                          base::JsonBudget& budget);
nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what);

/// The arguments of an earlier call as an object, whatever a model or a client has written: an object, or
/// JSON in a string. JSON that was cut is closed. If several objects follow each other, the last value of a
/// key counts. Anything else becomes the member "input".
nlohmann::ordered_json history_arguments(const nlohmann::ordered_json& arguments, base::JsonBudget& budget);

[[noreturn]] inline void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

}  // namespace weft::chat
