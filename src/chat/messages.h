#pragma once
// Checks the conversation of a request and rewrites it for its template.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "chat/abilities.h"
#include "chat/format.h"
#include "chat/tools.h"

namespace weft::chat {

struct HistoryCall {
  std::string id = {};
  std::string name = {};
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
};

struct Message {
  std::string role = {};  ///< "system", "user", "assistant", "tool"
  std::string content = {};
  std::string reasoning = {};
  std::vector<HistoryCall> calls = {};
  std::string call_id = {};  ///< The call that a tool's result belongs to.
  std::string name = {};     ///< Name of the tool or of the participant.
};

/// Throws Error kInvalidArgument, which names the message, unless the JSON is a conversation with string
/// content only. Unknown roles are read as the user's, and appended to `warnings`.
std::vector<Message> read_messages(std::string_view messages_json, std::vector<std::string>& warnings);

/// Rewrites messages for a template. Parts that it cannot write are expressed in another way, for example
/// calls as content. If the template has no tools, the system message describes `tools_json` and the call
/// format `calls`.
std::vector<Message> adapted(std::vector<Message> messages, const Abilities& abilities,
                             const CallFormat* calls, std::string_view tools_json);

nlohmann::ordered_json to_json(const std::vector<Message>& messages, const Abilities& abilities);

}  // namespace weft::chat
