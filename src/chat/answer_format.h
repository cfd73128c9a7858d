#pragma once
// What the readers of one prompt's answers share.
#include <string>
#include <vector>

#include "chat/format.h"
#include "chat/tools.h"

namespace weft::chat {

/// A format for reading: tags without white space, and what a tag in the text may be. Immutable.
struct AnswerFormat {
  /// With `calls` false, calls are content as everything else.
  AnswerFormat(const Format& format, std::vector<Tool> known_tools, bool calls, bool reasoning_is_open);

  enum class Tag { kReasoning, kWrapper, kHeader, kMessageEnd, kCalls };
  struct TextTag {
    Tag kind;
    std::size_t call = 0;  ///< Of kCalls: the first of `calls` that is opened so.
  };

  std::vector<Tool> tools;
  std::vector<CallFormat> calls;
  CallFormat bare;  ///< Of calls without a tag of their own.
  bool reads_calls;
  bool bare_object;
  bool channels;
  bool opens_in_reasoning;
  std::string reasoning_begin;
  std::vector<std::string> text_tags;  ///< What ends a run of content, with its meaning beside it.
  std::vector<TextTag> text_tag_kinds;
  std::vector<std::string> reasoning_tags;  ///< What ends a run of reasoning.
};

}  // namespace weft::chat
