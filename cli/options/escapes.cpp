#include "options/escapes.h"

#include <charconv>
#include <utility>

namespace weft::cli {

std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char* const digits = text.data() + i + 2;
    unsigned char byte = 0;
    switch (text[++i]) {
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case '\\':
      case '\'':
      case '"':
        out += text[i];
        break;
      case 'x':
        if (i + 2 < text.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
          out += static_cast<char>(byte);
          i += 2;
          break;
        }
        [[fallthrough]];
      default:
        out += {'\\', text[i]};
    }
  }
  return out;
}

std::string read_escapes(std::string text, bool escape) { return escape ? unescape(text) : std::move(text); }

std::vector<std::string> read_escapes(std::vector<std::string> texts, bool escape) {
  for (std::string& text : texts) text = read_escapes(std::move(text), escape);
  return texts;
}

}  // namespace weft::cli
