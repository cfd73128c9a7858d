#pragma once
// Chat templates of model families, for files that have none. The names are llama.cpp's.
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

/// The family's template in Jinja; empty for a name that is unknown.
std::string named_template(std::string_view name);

/// Sorted.
std::vector<std::string> template_names();

}  // namespace weft::text
