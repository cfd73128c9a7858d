#include "chat/tag_finder.h"

namespace weft::chat {

Begins begins(std::string_view text, std::string_view tag, bool ended) {
  if (text.starts_with(tag)) return Begins::kYes;
  return !ended && tag.starts_with(text) ? Begins::kPerhaps : Begins::kNo;
}

TagMatch find_tag(std::string_view text, std::size_t from, const std::vector<std::string>& tags, bool ended) {
  for (std::size_t at = from; at < text.size(); ++at) {
    TagMatch match{TagMatch::kNone, at};
    const std::string_view rest = text.substr(at);
    bool perhaps = false;
    std::size_t longest = 0;
    for (std::size_t i = 0; i < tags.size(); ++i) {
      if (tags[i].empty() || tags[i].front() != rest.front()) continue;
      const Begins how = begins(rest, tags[i], ended);
      perhaps |= how == Begins::kPerhaps;
      if (how != Begins::kYes || tags[i].size() <= longest) continue;
      longest = tags[i].size();
      match.tag = static_cast<int>(i);
    }
    if (perhaps) return {TagMatch::kNone, at};
    if (match.tag != TagMatch::kNone) return match;
  }
  return {TagMatch::kNone, text.size()};
}

}  // namespace weft::chat
