#pragma once
// The string formats that are enforced.
#include <string_view>

namespace weft::grammar {

struct StringFormat {
  std::string_view name;
  std::string_view pattern;  ///< Matches the whole string. Empty: the format is known and refused.
  int max_length = 0;        ///< 0: none.
};

/// Returns null for unknown names, which do not constrain values.
const StringFormat* find_format(std::string_view name);

}  // namespace weft::grammar
