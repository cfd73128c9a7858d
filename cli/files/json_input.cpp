#include "files/json_input.h"

#include <fmt/format.h>

#include "base/json.h"
#include "weft/error.h"

namespace weft::cli {

Json parse_json(std::string_view text, std::string_view what) {
  try {
    return base::parse_json<Json>(text);
  } catch (const base::JsonError& error) {
    throw Error(ErrorCode::kInvalidFile,
                what.empty() ? error.what() : fmt::format("{}: {}", what, error.what()));
  }
}

}  // namespace weft::cli
