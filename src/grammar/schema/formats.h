#pragma once
// The formats of strings that are held to.
#include <string_view>

namespace weft::grammar {

struct StringFormat {
  std::string_view name;
  std::string_view pattern;  ///< Of all of the string. Empty: known, and refused.
  int max_length = 0;        ///< 0: none.
};

/// Null for names that are no format of JSON Schema: those say nothing about values.
const StringFormat* find_format(std::string_view name);

}  // namespace weft::grammar
