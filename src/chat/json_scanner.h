#pragma once
// Reads one JSON value byte by byte, as a model writes it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/to_size.h"

namespace weft::chat {

/// Finds the end of a value and checks it (RFC 8259, valid UTF-8, no lone surrogates). One per value.
class JsonScanner {
 public:
  enum class Step : std::uint8_t {
    kMore,
    kDone,        ///< The value ends with this byte.
    kDoneBefore,  ///< The value, a number, ended before this byte.
    kBad,
  };
  /// Appends the byte to `out` where it belongs to the value, so not after kDoneBefore and kBad. A control
  /// character in a string, which models write and JSON forbids, is appended as its escape. After
  /// kBad, complete() can still close the value without this byte.
  Step feed(char c, std::string& out);
  /// Closes a value that was cut: `out` ends with the bytes that feed() wrote. Drops a trailing comma and a
  /// character or escape that is not complete. Doubles a single backslash, and adds null to a key without a
  /// value.
  void complete(std::string& out) const;
  /// Whether the value is whole if the input ends here. Without kDone only a number can be.
  bool whole_at_end() const;

  /// A comma was read, and not yet what follows it.
  bool is_after_comma() const {
    return mode_ == Mode::kKey || (mode_ == Mode::kValue && !in_object_.empty() && !in_object_.back());
  }

  /// The bytes at the end of `out` that belong to a UTF-8 character or an escape that is not complete. Half
  /// of a surrogate pair is not complete.
  std::size_t n_incomplete() const {
    const int n_escape = mode_ == Mode::kEscape ? 1 : mode_ == Mode::kHex ? 2 + n_hex_ : 0;
    return to_size((wants_low_surrogate_ ? 6 : 0) + n_escape + n_character_);
  }

  static constexpr std::size_t kMaxDepth = 100;

 private:
  enum class Mode : std::uint8_t {
    kValue,
    kFirstItem,  ///< A value or the end of an array.
    kFirstKey,   ///< A key or the end of an object.
    kKey,
    kColon,
    kAfterValue,
    kString,
    kEscape,
    kHex,
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kExponentSign,
    kExponentFirst,
    kExponent,
    kLiteral,
    kDone,
  };
  Step read(char c, std::string& out);
  Step value_begins(char c);
  Step value_ended();
  Step in_string(char c, std::string& out);
  /// An escape that JSON does not have: "\d" becomes "\\d", "\'" an apostrophe.
  Step mend_escape(char c, std::string& out);
  Step in_hex(char c);
  Step in_number(char c);
  Step after_value(char c);
  bool continues_character(unsigned char c);

  Mode mode_ = Mode::kValue;
  bool string_is_key_ = false;
  std::vector<bool> in_object_ = {};  ///< For each open bracket: whether it belongs to an object.
  std::string_view literal_ = {};     ///< The rest of true, false or null.
  int n_hex_ = 0;
  std::uint32_t code_ = 0;
  bool wants_low_surrogate_ = false;
  int n_character_ = 0;     ///< Bytes of a UTF-8 character that is not complete.
  int n_continuation_ = 0;  ///< Bytes that it still lacks, the next one within these bounds.
  unsigned char least_ = 0x80, most_ = 0xBF;
};

/// Whether the string is one JSON value, perhaps with white space around it, nested no deeper than kMaxDepth.
bool is_json(std::string_view text);
/// Appends the string with JSON's escapes, without the quotes.
void append_escaped(std::string& out, std::string_view text);

inline bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
std::string_view trimmed(std::string_view text);

}  // namespace weft::chat
