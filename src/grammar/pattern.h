#pragma once
// Translates regular expressions to expressions of a language.
#include <string>
#include <string_view>

#include "grammar/budget.h"
#include "grammar/language.h"

namespace weft::grammar {

struct PatternOptions {
  /// The pattern must match a substring, as in JSON Schema; otherwise the whole string.
  bool anywhere = false;
  /// The match is the content of a JSON string: characters are escaped where JSON requires it.
  bool in_json = false;
  std::string name = "the regular expression";  ///< For messages.
};

/// Adds an expression for the pattern. Throws Error kInvalidArgument with the place and the reason if it is
/// refused.
NodeId add_pattern(std::string_view pattern, const PatternOptions& options, Budget& budget, Builder& builder);

/// Adds a character of the set, escaped as in a JSON string.
NodeId add_json_character(const CharSet& set, Builder& builder);

}  // namespace weft::grammar
