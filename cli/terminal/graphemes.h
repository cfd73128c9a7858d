#pragma once
// Grapheme clusters: user-perceived characters of one or more code points (letters with combining marks,
// joined emoji, flags, Hangul syllables).
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// The byte offset of each cluster of `text`, followed by the size of `text`. Bytes that are not UTF-8 are
/// clusters of their own.
std::vector<std::size_t> grapheme_starts(std::string_view text);

/// Cluster boundaries near a byte offset.
struct ClusterBounds {
  std::size_t before = 0;  ///< The last one before the offset; 0: there is none.
  std::size_t at = 0;      ///< The first one at the offset or after it.
  std::size_t after = 0;   ///< The first one after the offset; the string's size: there is none.
};
/// Reads at most a few kilobytes around `place`.
ClusterBounds cluster_bounds(std::string_view text, std::size_t place);

/// The most terminal columns that any terminal gives the cluster: terminals disagree about joined emoji. At
/// least 1.
int grapheme_columns(std::string_view cluster);

/// `text` without bytes that are not UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace weft::cli
