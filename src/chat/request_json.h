#pragma once
// JSON of requests.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "weft/error.h"

namespace weft::chat {

/// Throws Error kInvalidArgument for invalid JSON, nesting beyond 100 levels and an object of more than
/// 16,384 members, of which each look-up compares all. `what` names the document.
nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what);

/// The arguments of an earlier call as an object, whatever a model or a client has written: an object, or
/// JSON in a string. JSON that was cut is closed. If several objects follow each other, the last value of a
/// key counts. Anything else becomes the member "input".
nlohmann::ordered_json history_arguments(const nlohmann::ordered_json& arguments);

[[noreturn]] inline void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

}  // namespace weft::chat
