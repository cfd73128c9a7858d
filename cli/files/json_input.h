#pragma once
// JSON that users bring.
#include <string_view>

#include "files/json_output.h"

namespace weft::cli {

/// Throws Error kInvalidFile that names the byte of the error, after "`what`: " unless it is empty. Nesting
/// and numbers have limits.
Json parse_json(std::string_view text, std::string_view what = {});

}  // namespace weft::cli
