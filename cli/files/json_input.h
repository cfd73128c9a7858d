#pragma once
// JSON that users bring.
#include <string_view>

#include "files/json_output.h"

namespace weft::cli {

/// Throws Error kInvalidFile that names the byte of the error. Nesting and numbers have limits.
Json parse_json(std::string_view text);

}  // namespace weft::cli
