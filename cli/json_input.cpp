#include "json_input.h"

#include <fmt/format.h>

#include "weft/error.h"

namespace weft::cli {

Json parse_json(std::string_view text) {
  constexpr int kMaxDepth = 64;
  try {
    return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxDepth) throw Error(ErrorCode::kInvalidFile, "it is nested too deep");
      return true;
    });
  } catch (const Json::parse_error& error) {
    throw Error(ErrorCode::kInvalidFile,
                fmt::format("this is not JSON: unexpected byte {}", error.byte));
  } catch (const Json::out_of_range&) {
    throw Error(ErrorCode::kInvalidFile, "it has a number that is out of range");
  }
}

}  // namespace weft::cli
