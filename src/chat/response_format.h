#pragma once
// The format that all readers of one prompt's responses share.
#include <string>
#include <vector>

#include "chat/format.h"
#include "chat/tools.h"

namespace weft::chat {

/// A format for reading: tags without white space, and the meaning of each tag in content. Immutable.
struct ResponseFormat {
  /// With `calls` false, calls are read as content.
  ResponseFormat(const Format& format, std::vector<Tool> known_tools, bool calls, bool reasoning_is_open);

  enum class Tag { kReasoning, kReasoningEnd, kWrapper, kHeader, kMessageEnd, kCalls };
  struct TextTag {
    Tag kind;
    std::size_t call = 0;  ///< Of kCalls: index of the first of `calls` with this opener.
  };

  std::vector<Tool> tools;
  std::vector<CallFormat> calls;
  CallFormat bare;  ///< The format of calls without a tag.
  bool reads_calls;
  bool bare_object;
  bool channels;
  bool opens_in_reasoning;
  std::string reasoning_begin;
  std::vector<std::string> text_tags;  ///< Tags that end a run of content; text_tag_kinds has their meanings.
  std::vector<TextTag> text_tag_kinds;
  std::vector<std::string> reasoning_tags;  ///< Tags that end a run of reasoning.
};

}  // namespace weft::chat
