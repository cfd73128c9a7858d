#pragma once
// Letters of ASCII, whatever the locale.

namespace weft::base {

constexpr char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace weft::base
