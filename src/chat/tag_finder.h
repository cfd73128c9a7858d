#pragma once
// Finds the tags of a format in a text that is not whole yet.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::chat {

struct TagMatch {
  static constexpr int kNone = -1;
  int tag = kNone;     ///< Which of the tags, or kNone.
  std::size_t at = 0;  ///< Where it begins. Without one: from here on a tag may begin, else the text's end.
};

/// The first tag in the text from `from` on; of several at one place the longest. While the text may go on
/// (`ended` is false), a place where a longer tag may still come decides nothing.
/// Takes at most time * (tags * their length), and none twice if the caller goes on from `at`.
TagMatch find_tag(std::string_view text, std::size_t from, const std::vector<std::string>& tags, bool ended);

/// How a text begins: with the tag, perhaps with it, or not.
enum class Begins { kYes, kPerhaps, kNo };
Begins begins(std::string_view text, std::string_view tag, bool ended);

}  // namespace weft::chat
