#pragma once
// JSON of requests.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "weft/error.h"

namespace weft::chat {

/// Throws Error kInvalidArgument where it is no JSON, is nested too deep or has objects too large. `what`
/// names it.
nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what);

[[noreturn]] inline void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

}  // namespace weft::chat
