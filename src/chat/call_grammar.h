#pragma once
// Grammars that constrain a response, in the syntax of its format.
#include <optional>
#include <vector>

#include "chat/format.h"
#include "chat/tools.h"
#include "weft/chat.h"

namespace weft::chat {

/// Whether a response begins with reasoning, as far as its prompt says.
enum class ReasoningState { kNone, kPossible, kOpen };

/// Returns the grammar of a response, or nullopt if it is not constrained. The response may call `tools`.
/// Keywords of schemas that are not strict and cannot be enforced are appended to `warnings`. Throws
/// ToolSchemaError for such keywords of strict functions.
std::optional<Grammar> response_grammar(const Format& format, const std::vector<Tool>& tools,
                                        const ChatTurn& turn, ReasoningState reasoning,
                                        std::vector<std::string>& warnings);

}  // namespace weft::chat
