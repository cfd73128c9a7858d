#pragma once
// UTF-8 as Unicode defines it (no surrogates, no overlong forms, at most U+10FFFF). What is invalid is
// replaced by U+FFFD per maximal subpart (Unicode 15, section 3.9, "U+FFFD substitution of maximal
// subparts").
#include <cstddef>
#include <string>
#include <string_view>

namespace weft::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  ///< U+FFFD
inline constexpr std::string_view kSpaceMark =
    "\xE2\x96\x81";  ///< U+2581, a space in SentencePiece's tokens.

enum class Utf8Status { kValid, kInvalid, kIncomplete };

struct Utf8Char {
  Utf8Status status;
  std::size_t size;  ///< Bytes of the character, of the invalid part, or of the incomplete rest.
  char32_t code;     ///< Only if valid.
};

/// The first character of a non-empty string. kIncomplete: more bytes may make it valid.
Utf8Char first_char(std::string_view text);

/// Bytes before the first that is invalid or incomplete.
std::size_t valid_prefix(std::string_view text);

/// Valid UTF-8: each invalid part, and an incomplete end, as U+FFFD.
std::string repaired(std::string_view text);

/// Replaces each space by U+2581.
std::string with_space_marks(std::string_view text);

void append_utf8(std::string& text, char32_t code);

/// Bytes of a character of valid UTF-8, from its first byte.
inline std::size_t char_size(char lead) {
  const auto c = static_cast<unsigned char>(lead);
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

}  // namespace weft::text
