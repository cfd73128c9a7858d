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

/// Boundaries of clusters near a place of a text.
struct ClusterBounds {
  std::size_t before = 0;  ///< The last one before the place; 0: there is none.
  std::size_t at = 0;      ///< The first one at the place or after it.
  std::size_t after = 0;   ///< The first one after the place; the text's size: there is none.
};
/// Reads at most some kilobytes of the text, however long it is.
ClusterBounds cluster_bounds(std::string_view text, std::size_t place);

/// The most terminal columns that any terminal gives the cluster: terminals disagree about joined emoji. At
/// least 1.
int grapheme_columns(std::string_view cluster);

/// `text` without bytes that are not UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace weft::cli
