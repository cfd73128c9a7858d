#pragma once
// What a limit of reasoning knows of its response.
#include <string>

#include "chat/format.h"
#include "chat/reader_state.h"
#include "weft/chat.h"

namespace weft::chat {

/// How reasoning is closed. Tags are as a model should write them.
struct ReasoningEnd {
  std::string message = {};
  std::string tag = {};        ///< Ends a section of reasoning. Empty: the format has no reasoning.
  std::string later_tag = {};  ///< The same for sections after one that was closed at the budget.
};

/// Throws Error kInvalidArgument for a message that is too long, or that has a closing tag.
ReasoningEnd reasoning_end(const Format& format, const std::string& message);

}  // namespace weft::chat

namespace weft {

struct ReasoningLimit::State {
  chat::ReaderState answer;  ///< At the beginning of the response.
  int budget = 0;            ///< At least 0.
  chat::ReasoningEnd end = {};
};

}  // namespace weft
