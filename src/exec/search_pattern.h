#pragma once
// A regular expression of a user (PCRE2), to look for in texts of any origin. Time and memory are bounded
// whatever the two are.
#include <memory>
#include <string>
#include <string_view>

namespace weft::exec {

/// Immutable; used by any thread. Texts are bytes, not characters.
class SearchPattern {
 public:
  /// Throws Error kInvalidArgument that says what is wrong with the pattern, and where.
  explicit SearchPattern(std::string_view pattern);
  ~SearchPattern();

  /// Whether a part of the text matches. Throws Error kInvalidArgument where finding out takes too long.
  bool found_in(std::string_view text) const;

 private:
  struct Impl;
  std::string pattern_;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace weft::exec
