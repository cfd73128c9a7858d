#pragma once
// A conversation to a prompt and a reader of its answer: what the endpoints that chat have in common.
#include <memory>
#include <string>
#include <vector>

#include "api/answer_json.h"
#include "api/common_fields.h"
#include "api/job.h"
#include "api/media.h"
#include "weft/chat.h"

namespace weft::server {

struct ChatOrder {
  std::vector<Token> prompt;
  RequestParams params;
  AnswerReader reader;
};

/// The turn as the model's template writes it, with the server's defaults. Throws ApiError for an encoder.
ChatOpening open_chat(const ServedModel& model, ChatTurn turn);
/// Renders the turn, cuts it into tokens, and holds the answer to what it must be. Throws ApiError where the
/// conversation does not fit. `media` were taken out of the turn's messages. Warnings become those of the
/// job.
ChatOrder make_order(Job& job, ChatTurn turn, CommonFields common, const Media& media = {});
/// Tokens of the prompt that the turn becomes. Throws as open_chat does.
std::size_t count_tokens(const ServedModel& model, ChatTurn turn, const Media& media);

/// The bounds of a conversation: messages, parts of all their contents, tools.
inline constexpr std::size_t kMostMessages = 16384, kMostParts = 65536, kMostTools = 2048;
/// The messages of a request, or the items of its input. Throws ApiError for too many of them, or of their
/// parts.
const Json* read_conversation(Fields& fields, std::string_view name);
/// The tools of a request; null where there are none. Throws ApiError for too many.
const Json* find_tools(Fields& fields);

/// The choice of tools as OpenAI's API writes it: "none", "auto", "required", {"type": "function", ...}.
void read_tool_choice(Fields& fields, ChatTurn& turn);

/// "chat_template_kwargs": variables of the template.
void read_template_variables(Fields& fields, ChatTurn& turn);

using ToolCall = ChatAnswer::Call;

/// What one completion has written so far.
struct ReadAnswer : ChatAnswer {
  AnswerReader reader;
  Json logprobs = Json::array();
  std::vector<Token> tokens;
  bool done = false;
  StopReason stop = StopReason::kEnd;
  CompletionStats stats;

  /// Reads what is new; gives the events with the ids of calls filled in, also at the end of the text.
  std::vector<AnswerEvent> read(const Chunk& chunk, std::string_view call_id_prefix);
};

}  // namespace weft::server
