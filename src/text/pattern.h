#pragma once
// Finds the places in a string that a step of a tokenizer.json names by a pattern or a class of characters.
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

struct Place {
  std::size_t begin = 0, end = 0;
};

/// Finds places in valid UTF-8. Immutable: any number of threads may use it.
class Pattern {
 public:
  static Pattern of_text(std::string text);
  /// Throws Error kUnsupported for an expression that PCRE2 does not take.
  static Pattern of_expression(std::string_view expression);
  static Pattern of_characters(bool (*wanted)(char32_t));

  /// All places, ascending, none overlapping, none empty. Throws Error kUnsupported where an expression takes
  /// more work than one that is linear in the text.
  std::vector<Place> find(std::string_view text) const { return find_(text); }

 private:
  using Find = std::function<std::vector<Place>(std::string_view)>;
  explicit Pattern(Find find) : find_(std::move(find)) {}
  Find find_;
};

}  // namespace weft::text
