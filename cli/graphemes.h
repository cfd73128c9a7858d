#pragma once
// Grapheme clusters: what a reader takes for one character, however many code points it has (letters with
// combining marks, emoji joined to a family, flags, Hangul syllables).
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// The byte offset of each cluster of `text`, and the text's size as the last entry. Bytes that are not UTF-8
/// are clusters of their own.
std::vector<std::size_t> grapheme_starts(std::string_view text);

/// The most terminal columns that any terminal gives the cluster: terminals disagree about joined emoji. At
/// least 1.
int grapheme_columns(std::string_view cluster);

/// `text` without bytes that are not UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace weft::cli
