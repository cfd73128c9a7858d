#pragma once
// The abilities of a chat template. They are found by rendering small conversations and searching the output
// for the inputs.
#include <optional>
#include <string>
#include <string_view>

#include "weft/chat_template.h"

namespace weft::chat {

/// The variables by which templates turn reasoning on and off.
inline constexpr const char* kReasoningSwitches[] = {"enable_thinking", "thinking", "enable_reasoning",
                                                     "reasoning"};

struct Abilities {
  bool system = true;             ///< A system message at the beginning.
  bool later_system = true;       ///< And after others.
  bool repeated_roles = true;     ///< Two messages of one role after each other.
  bool user_after_result = true;  ///< A user message after a tool's result.
  bool parts_only = false;        ///< Content must be a list of parts.
  bool tools = false;             ///< Tools are written.
  bool needs_tools = false;       ///< The template writes nothing without tools, so it always gets a list.
  /// Tools are written from the variable "functions", a string with their JSON. It must always be defined.
  bool functions = false;
  bool calls = false;    ///< Calls of earlier assistant messages are written, and the results of the tools.
  bool results = false;  ///< A tool's result is written as a message of its own, with or without calls.
  bool parallel_calls = false;   ///< Several in one message.
  bool object_arguments = true;  ///< Arguments are given as an object, otherwise as JSON in a string.
  bool null_content = false;     ///< Messages with calls have null for content, not "".
  bool content_with_calls = true;
  bool short_ids = false;             ///< Ids of calls must be nine letters and digits.
  std::string reasoning_key = {};     ///< The key of a message's reasoning; empty where it is not written.
  std::string reasoning_switch = {};  ///< The variable that turns reasoning on and off; empty: there is none.
  bool reasoning_effort = false;      ///< The variable of this name makes a difference.
};

/// Renders up to thirty small conversations, each bounded as all renderings are.
Abilities find_abilities(const ChatTemplate& chat_template);

/// The value of the variable "functions" (Firefunction): the tools as indented JSON, "" for none.
std::string functions_text(std::string_view tools_json);

/// Renders the prompt of a conversation. Returns nullopt if the template raises an error.
std::optional<std::string> try_render(const ChatTemplate& chat_template, std::string_view messages_json,
                                      std::string_view tools_json = {}, std::string_view variables_json = {},
                                      bool add_generation_prompt = true);

}  // namespace weft::chat
