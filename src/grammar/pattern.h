#pragma once
// Regular expressions to expressions of a language.
#include <string>
#include <string_view>

#include "grammar/budget.h"
#include "grammar/language.h"

namespace weft::grammar {

struct PatternOptions {
  /// The pattern must match a part of the text, as in JSON Schema; otherwise all of it.
  bool anywhere = false;
  /// The text stands in a JSON string: what must be escaped there is.
  bool in_json = false;
  std::string name = "the regular expression";  ///< For messages.
};

/// Adds what the pattern matches. Throws Error kInvalidArgument that says where and why a pattern is refused.
NodeId add_pattern(std::string_view pattern, const PatternOptions& options, Budget& budget, Builder& builder);

/// A character of the set, as it stands in a JSON string.
NodeId add_json_character(const CharSet& set, Builder& builder);

}  // namespace weft::grammar
