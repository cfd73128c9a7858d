#pragma once
// From a conversation to a prompt and a reader of the response. All chat endpoints use it.
#include <memory>
#include <string>
#include <vector>

#include "api/common_fields.h"
#include "api/job.h"
#include "api/media.h"
#include "api/request_tools.h"
#include "api/response_json.h"
#include "base/to_size.h"
#include "weft/chat.h"

namespace weft::server {

/// The turn of a request.
struct RequestTurn : ChatTurn {
  std::shared_ptr<const RequestTools> tools = nullptr;  ///< The tools of tools_json; null: none were read.
  std::string field = "messages";                       ///< The field of the conversation, for errors.
  bool has_budget = false;                              ///< The request sets reasoning_budget.
};

struct ChatOrder {
  std::vector<Token> prompt;
  RequestParams params;
  ResponseReader reader;
};

/// Opens the turn with the model's template and the server's defaults. Throws ApiError for an encoder.
ChatOpening open_chat(const ServedModel& model, RequestTurn turn);
/// Renders and tokenizes the turn, and constrains the response. Throws ApiError if the conversation does not
/// fit. `media` were taken out of the turn's messages. Warnings are added to the job.
ChatOrder make_order(Job& job, RequestTurn turn, CommonFields common, const Media& media = {});
/// Tokens of the prompt that the turn becomes. Throws as open_chat does.
std::size_t count_tokens(const ServedModel& model, RequestTurn turn, const Media& media);

/// The limits of a conversation: messages, and all their parts (of contents, results, calls and lists of
/// tools).
inline constexpr std::size_t kMostMessages = 16384, kMostParts = 65536;
/// The messages of a request, or the items of its input. Throws ApiError for too many of them, or of their
/// parts.
const Json* read_conversation(Fields& fields, std::string_view name);

/// Reads the tools, and the choice of one in the form of OpenAI's APIs. The choice is "none", "auto",
/// "required", a function, a search for tools, or a list of allowed tools. The choice of a tool that neither
/// the server nor the client runs is ignored with a note.
/// `changes` are the changes within the conversation.
void read_tools(Fields& fields, RequestTurn& turn, const std::vector<ToolChange>& changes = {});
/// Whether the response continues the last message (add_generation_prompt, continue_final_message).
void read_continuation(Fields& fields, ChatTurn& turn);
/// The effort that weft knows for an effort of any API.
std::string known_effort(std::string effort);
/// The effort of a request: reasoning_effort, or a switch or effort as other APIs have it
/// (enable_thinking, think, thinking, reasoning). read_common() reads their budgets.
std::string read_effort(Fields& fields);

/// "chat_template_kwargs": variables of the template.
void read_template_variables(Fields& fields, ChatTurn& turn);

using ToolCall = ChatResponse::Call;

/// The place of reasoning in a response.
enum class ReasoningPlace : std::uint8_t {
  kApart,
  kContent,  ///< In the content, in <think> tags.
  kBoth,
};

/// What the reader has parsed of one completion so far.
struct ReadResponse : ChatResponse {
  ResponseReader reader;
  ReasoningPlace reasoning_place = ReasoningPlace::kApart;
  std::shared_ptr<const RequestTools> tools = nullptr;  ///< The tools of the request; null: none.
  Json logprobs = Json::array();
  std::vector<Token> tokens;
  bool done = false;
  StopReason stop = StopReason::kEnd;
  CompletionStats stats;
  int n_generated = 0;  ///< Tokens so far.
  int n_reasoning = 0;  ///< Tokens of reasoning so far.

  /// Reads a chunk and returns its events, with ids of calls. The arguments of a custom tool's call are its
  /// input, in one event.
  std::vector<ResponseEvent> read(const Output& chunk, std::string_view call_id_prefix);
  RequestTools::Origin origin_of(const std::string& function) const {
    return tools == nullptr ? RequestTools::Origin{function} : tools->origin_of(function);
  }
  bool is_custom(int call) const { return origin_of(calls[to_size(call)].name).is_custom; }

 private:
  void place_reasoning(std::vector<ResponseEvent>& events);
  void count_reasoning(const Output& chunk, const std::vector<ResponseEvent>& events);
  void tell_inputs(std::vector<ResponseEvent>& events);

  bool thinks_ = false;     ///< A tag is open in the content.
  int n_undecided_ = 0;     ///< Tokens without an event so far.
  std::string input_ = {};  ///< The arguments of a custom tool's call so far.
  int custom_call_ = -1;    ///< The last call where it is one and has not ended.
};

}  // namespace weft::server
