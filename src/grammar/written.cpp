#include "grammar/written.h"

#include <utility>
#include <vector>

namespace weft::grammar {

std::size_t tag_end(std::string_view text, std::size_t from) {
  if (text[from] == '<') {
    const std::size_t end = text.find_first_of("> \n", from);
    return end != text.npos && text[end] == '>' ? end + 1 : from;
  }
  if (text[from] != '[') return from;
  std::size_t end = from + 1;
  while (end < text.size() &&
         ((text[end] >= 'A' && text[end] <= 'Z') || text[end] == '_' || text[end] == '/'))
    ++end;
  return end < text.size() && text[end] == ']' && end > from + 1 ? end + 1 : from;
}

Grammar written(std::string_view text) {
  std::vector<Grammar> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = tag_end(text, at);
    if (end == at) {
      ++at;
      continue;
    }
    if (at > begin) parts.push_back(Grammar::literal(text.substr(begin, at - begin)));
    parts.push_back(Grammar::tag(text.substr(at, end - at)));
    begin = at = end;
  }
  if (begin < text.size()) parts.push_back(Grammar::literal(text.substr(begin)));
  return Grammar::sequence(std::move(parts));
}

}  // namespace weft::grammar
