#pragma once
// The conversation of a request, checked and made into what its template can write.
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
  std::string call_id = {};  ///< Of a tool's result.
  std::string name = {};     ///< Of a tool, or of who speaks.
};

/// Throws Error kInvalidArgument, which names the message, for what is no conversation of text.
std::vector<Message> read_messages(std::string_view messages_json);

/// Rewrites messages for a template: what it cannot write is told in another way. With `tools_json`, tools
/// that the template does not know are described in the system message, with calls written as in `calls`.
std::vector<Message> adapted(std::vector<Message> messages, const Abilities& abilities,
                             const CallFormat* calls, std::string_view tools_json);

nlohmann::ordered_json to_json(const std::vector<Message>& messages, const Abilities& abilities);

}  // namespace weft::chat
