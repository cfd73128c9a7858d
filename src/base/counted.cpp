#include "base/counted.h"

namespace weft::base {

std::string counted_text(std::int64_t n, std::string_view noun, std::string_view plural) {
  std::string text = std::to_string(n);
  text += ' ';
  text += n == 1 || plural.empty() ? noun : plural;
  if (n != 1 && plural.empty()) text += 's';
  return text;
}

}  // namespace weft::base
