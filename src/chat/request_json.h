#pragma once
// JSON of requests.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json.h"
#include "weft/error.h"

namespace weft::chat {

/// Of one request: its messages and the arguments of all their calls share it.
inline base::JsonBudget request_budget() { return {.depth = 100, .n_comparisons = std::size_t{1} << 27}; }

/// Throws Error kInvalidArgument where the text is no JSON or exceeds the budget. `what` names the text.
nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what,
                                          base::JsonBudget& budget);
nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what);

[[noreturn]] inline void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

}  // namespace weft::chat
