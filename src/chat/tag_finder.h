#pragma once
// Finds the tags of a format in a string that is still growing.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::chat {

struct TagMatch {
  static constexpr int kNone = -1;
  int tag = kNone;     ///< Index of the tag, or kNone.
  std::size_t at = 0;  ///< Where it begins. With kNone: the first place where a tag may begin, or the end.
};

/// Returns the first tag at or after `from`; of several at one place the longest. While `ended` is false, it
/// returns kNone at a place where a longer tag may still come. Takes time proportional to the characters
/// times the tags' lengths. No character is searched twice if the next call begins at `at`.
TagMatch find_tag(std::string_view text, std::size_t from, const std::vector<std::string>& tags, bool ended);

/// Whether the string begins with the tag, may do so once it is longer, or does not.
enum class Begins { kYes, kPerhaps, kNo };
Begins begins(std::string_view text, std::string_view tag, bool ended);

}  // namespace weft::chat
