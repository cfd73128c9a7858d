#pragma once
// Text: bytes with their origins. Only the template itself may write a prompt's special tokens. So every
// string operation tracks for each byte whether the template or a variable supplied it.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text::jinja {

class Text {
 public:
  Text() = default;
  Text(std::string_view bytes, bool from_template) { append(bytes, from_template); }

  std::string_view bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Throws Problem if the string would exceed kMaxTextBytes. So do the other functions that lengthen
  /// strings.
  void append(std::string_view bytes, bool from_template);
  void append(const Text& other) { append(other, 0, other.size()); }
  /// Bytes [begin, end) of `other`, which must be another object.
  void append(const Text& other, std::size_t begin, std::size_t end);
  Text slice(std::size_t begin, std::size_t end) const;
  bool from_template(std::size_t position) const;

  /// Calls visit(std::string_view bytes, bool from_template) for each longest run of one origin, in order.
  template <class Visit>
  void each_run(Visit visit) const {
    std::size_t begin = 0;
    bool origin = first_;
    for (std::size_t flip : flips_) {
      visit(bytes().substr(begin, flip - begin), origin);
      begin = flip;
      origin = !origin;
    }
    if (begin < size()) visit(bytes().substr(begin), origin);
  }

 private:
  std::string bytes_;
  bool first_ = false;              // Origin of byte 0; false in an empty string.
  std::vector<std::size_t> flips_;  // Ascending positions in (0, size) where the origin changes.
};

// Characters. As in Python, strings are counted in Unicode characters. A byte that is not part of valid UTF-8
// counts as one character and is kept unchanged.

struct Character {
  char32_t code;  // kBadByte where the byte is not UTF-8.
  std::size_t n_bytes;
};
inline constexpr char32_t kBadByte = 0xFFFFFFFF;

/// `position` must be within `bytes`.
Character character_at(std::string_view bytes, std::size_t position);
/// Start of the character that ends before `position` (> 0).
std::size_t previous_character(std::string_view bytes, std::size_t position);
std::size_t count_characters(std::string_view bytes);
/// Byte position of a character by its index; bytes.size() if there are fewer characters.
std::size_t character_position(std::string_view bytes, std::size_t index);
bool is_space(char32_t code);  ///< As Python's str.isspace().

}  // namespace weft::text::jinja
