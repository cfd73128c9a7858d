#pragma once
// Strings as a model writes them: their tags may be special tokens.
#include <cstddef>
#include <string_view>

#include "weft/grammar.h"

namespace weft::grammar {

/// Returns the end of the tag that begins at `from`, or `from` if none does. A tag is <...> without white
/// space or [CAPITALS].
std::size_t tag_end(std::string_view text, std::size_t from);
/// The string, with each of its tags as Grammar::tag.
Grammar written(std::string_view text);

}  // namespace weft::grammar
