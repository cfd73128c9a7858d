#pragma once
// Lines of at most so many characters, broken where Python's textwrap breaks them. Time is linear in the
// text, and spent from the budget; every byte keeps its origin.
#include <cstdint>
#include <vector>

#include "text/jinja/limits.h"
#include "text/jinja/text.h"

namespace weft::text::jinja {

struct WrapStyle {
  std::int64_t width = 79;       ///< In characters, at least 1.
  bool break_long_words = true;  ///< Words longer than a line; else they stand on one that is too long.
  bool break_on_hyphens = true;  ///< Behind the hyphens of words, too.
};
/// The lines that one line of text becomes: none of an empty one.
std::vector<Text> wrap_words(Budget& budget, const Text& line, const WrapStyle& style);

}  // namespace weft::text::jinja
