#pragma once
// A user's regular expression (PCRE2), to search strings of any origin. Time and memory are bounded for any
// pattern and string.
#include <memory>
#include <string>
#include <string_view>

namespace weft::exec {

/// Immutable; used by any thread. Texts are bytes, not characters.
class SearchPattern {
 public:
  /// Throws Error kInvalidArgument that describes the error in the pattern, and its position.
  explicit SearchPattern(std::string_view pattern);
  ~SearchPattern();

  /// Whether the pattern matches a part of the string. Throws Error kInvalidArgument if matching takes too
  /// long.
  bool found_in(std::string_view text) const;

 private:
  struct Impl;
  std::string pattern_;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace weft::exec
