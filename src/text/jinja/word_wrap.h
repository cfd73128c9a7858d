#pragma once
// Breaks lines to a maximum width, at the places where Python's textwrap breaks them. Time is linear in the
// input and spent from the budget. Every byte keeps its origin.
#include <cstdint>
#include <vector>

#include "text/jinja/limits.h"
#include "text/jinja/text.h"

namespace weft::text::jinja {

struct WrapStyle {
  std::int64_t width = 79;       ///< In characters, at least 1.
  bool break_long_words = true;  ///< False: a word longer than a line gets a line of its own.
  bool break_on_hyphens = true;  ///< Also break after the hyphens of words.
};
/// The lines that one line becomes; none for an empty line.
std::vector<Text> wrap_words(Budget& budget, const Text& line, const WrapStyle& style);

}  // namespace weft::text::jinja
