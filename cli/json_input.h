#pragma once
// JSON that users bring.
#include <string_view>

#include "json_output.h"

namespace weft::cli {

/// Throws Error kInvalidFile that says where the text stops being JSON, that it is nested too deep, or that no
/// double holds one of its numbers.
Json parse_json(std::string_view text);

}  // namespace weft::cli
