#include "grammar/unicode_classes.h"

#include <utf8proc.h>

#include <string>
#include <utility>

namespace weft::grammar {
namespace {

constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {{"Letter", "L"},
                                                                        {"Lowercase_Letter", "Ll"},
                                                                        {"Uppercase_Letter", "Lu"},
                                                                        {"Mark", "M"},
                                                                        {"Number", "N"},
                                                                        {"Decimal_Number", "Nd"},
                                                                        {"Punctuation", "P"},
                                                                        {"Symbol", "S"},
                                                                        {"Separator", "Z"},
                                                                        {"Space_Separator", "Zs"},
                                                                        {"Other", "C"},
                                                                        {"Control", "Cc"},
                                                                        {"Currency_Symbol", "Sc"},
                                                                        {"Math_Symbol", "Sm"}};

}  // namespace

std::optional<CharSet> general_category(std::string_view name) {
  if (name.starts_with("gc=")) name.remove_prefix(3);
  for (const auto& [long_name, short_name] : kLongNames)
    if (name == long_name) name = short_name;
  CharSet set;
  char32_t first = 0;
  bool inside = false;
  for (char32_t c = 0; c <= kLastCharacter; ++c) {
    const bool matches =
        std::string_view(utf8proc_category_string(static_cast<utf8proc_int32_t>(c))).starts_with(name);
    if (matches && !inside) first = c;
    if (!matches && inside) set.add(first, c - 1);
    inside = matches;
  }
  if (inside) set.add(first, kLastCharacter);
  if (name.empty() || set.empty()) return std::nullopt;
  return set;
}

}  // namespace weft::grammar
