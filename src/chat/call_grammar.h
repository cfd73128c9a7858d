#pragma once
// What an answer is held to, as its format writes it.
#include <optional>
#include <vector>

#include "chat/format.h"
#include "chat/tools.h"
#include "weft/chat.h"

namespace weft::chat {

/// How an answer begins, as far as its prompt says.
enum class ReasoningState { kNone, kPossible, kOpen };

/// Nothing where the answer is free. `tools` are those that may be called. Throws Error kInvalidArgument for
/// schemas of arguments that are none, and for what is strict and cannot be held.
std::optional<Grammar> answer_grammar(const Format& format, const std::vector<Tool>& tools,
                                      const ChatTurn& turn, ReasoningState reasoning);

}  // namespace weft::chat
