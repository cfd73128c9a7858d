#pragma once
// Finds matches of a pattern or a character class, for steps of a tokenizer.json.
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
  /// Throws Error kUnsupported for an expression that PCRE2 does not accept.
  static Pattern of_expression(std::string_view expression);
  static Pattern of_characters(bool (*wanted)(char32_t));

  /// All places in ascending order, without overlaps or empty ones. Throws Error kUnsupported if the
  /// expression takes more than linear work.
  std::vector<Place> find(std::string_view text) const { return find_(text); }

 private:
  using Find = std::function<std::vector<Place>(std::string_view)>;
  explicit Pattern(Find find) : find_(std::move(find)) {}
  Find find_;
};

}  // namespace weft::text
