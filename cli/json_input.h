#pragma once
// JSON that users bring.
#include <string_view>

#include "json_output.h"

namespace weft::cli {

/// Throws Error kInvalidFile that says where it stops being JSON, or that it is nested too deep or has a
/// number that no double holds.
Json parse_json(std::string_view text);

}  // namespace weft::cli
