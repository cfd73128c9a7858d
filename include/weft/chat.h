#pragma once
// Chats: renders a conversation into a prompt, and parses the response into content, reasoning and tool
// calls. Chat formats differ between model families; Chat::formats() lists the known ones.
//
//   weft::Chat chat(*model->chat_template());
//   weft::ChatOpening opening = chat.open({.messages_json = R"([{"role": "user", "content": "Hi"}])"});
//   weft::Response response = service.submit(model->tokenizer().encode(opening.prompt), {.special = true});
//   for (weft::Output output; response.next(output);)
//     for (const weft::ResponseEvent& event : opening.reader.push(output.text)) show(event);
//   for (const weft::ResponseEvent& event : opening.reader.finish()) show(event);
//
// Set RequestParams::special, because the reader needs the control tokens.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/batcher.h"
#include "weft/chat_template.h"
#include "weft/error.h"
#include "weft/grammar.h"

#pragma GCC visibility push(default)

namespace weft {

enum class ToolChoice : std::uint8_t { kNone, kAuto, kRequired, kNamed };

/// A conversation that a response is wanted for: messages, tools and options.
struct ChatTurn {
  /// A JSON array of messages as in OpenAI's chat API: content as a string or as parts, tool_calls with
  /// arguments as strings, role "tool" with tool_call_id. The role "developer" means "system". Assistant
  /// messages may have reasoning_content.
  std::string messages_json = {};
  std::string tools_json = {};  ///< A JSON array of tools as in OpenAI's chat API, or empty.
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name = {};  ///< The function to call, with kNamed.
  /// Whether a response may have several calls (at most kMostCalls). nullopt: only with kAuto. Ignored with
  /// kNamed, which has one call.
  std::optional<bool> parallel_tool_calls = std::nullopt;
  static constexpr int kMostCalls = 32;  ///< Enforced wherever ChatOpening::grammar is set.
  /// Whether arguments must follow the functions' schemas. false: only arguments of strict functions; others
  /// are any JSON object.
  bool hold_arguments = true;
  /// "minimal", "low", "medium" or "high", for templates that have the variable. "none": a reasoning_budget
  /// of 0, unless one is set. Empty: the template decides.
  std::string reasoning_effort = {};
  /// Turns reasoning on or off, for templates with a switch. nullopt: the template decides. reasoning_effort
  /// and the variables below take precedence.
  std::optional<bool> reasoning = std::nullopt;
  /// The most tokens of reasoning in a response; then the reasoning is closed (ChatOpening::reasoning_limit).
  /// Below 0: no limit. 0 also turns reasoning off, for templates with a switch.
  int reasoning_budget = -1;
  /// Ends reasoning that reached the budget, before the closing tag. It is part of the reasoning.
  std::string reasoning_budget_message = {};
  static constexpr std::size_t kMaxBudgetMessageBytes = 4096;
  /// Like variables_json, but reasoning_effort and variables_json take precedence.
  std::string default_variables_json = {};
  /// A JSON object of further template variables, or empty. `now` (ChatTemplate::Options) also sets the
  /// templates' other names for the date: date_string, datetime.
  std::string variables_json = {};
  /// false: the last message is the start of the response, which the model continues.
  bool add_generation_prompt = true;
  /// Find ChatOpening::divergences. It costs two more renderings.
  bool find_divergences = false;
  /// The grammar of the content (response_format). Reasoning before the content is not restricted.
  std::optional<Grammar> content_grammar = std::nullopt;
};

struct ResponseEvent {
  enum class Kind : std::uint8_t {
    kContent,        ///< text
    kReasoning,      ///< text
    kToolCall,       ///< A call begins: call, name, id.
    kToolArguments,  ///< text: more of the call's arguments, JSON.
    kToolCallEnd,    ///< The call is complete: its arguments are one JSON object.
  };
  Kind kind = Kind::kContent;
  std::string text = {};
  int call = 0;           ///< Index of the call in this response, from 0.
  std::string name = {};  ///< With kToolCall.
  std::string id = {};    ///< With kToolCall: the model's id, if its format has one.
};

/// Parses one response while it is generated. Text may be split anywhere. Events are emitted as soon as their
/// kind is certain, so a partial tag is never part of one. No output of a model makes it throw: an incomplete
/// call becomes content.
class ResponseReader {
 public:
  ResponseReader();  ///< A reader without a format: everything is content.
  ~ResponseReader();
  ResponseReader(ResponseReader&&) noexcept;
  ResponseReader& operator=(ResponseReader&&) noexcept;
  ResponseReader(const ResponseReader&);  ///< Copy it for each completion of a request.
  ResponseReader& operator=(const ResponseReader&);

  std::vector<ResponseEvent> push(std::string_view text);
  /// Ends the response and returns the remaining events. was_cut: the response ended early, so a partial tag
  /// is dropped.
  std::vector<ResponseEvent> finish(bool was_cut = false);
  /// The number of calls so far. Above 0, OpenAI's finish_reason is "tool_calls".
  int n_calls() const;

 private:
  friend class Chat;
  struct State;
  std::unique_ptr<State> state_;
};

/// A response so far, assembled from its events.
struct ChatResponse {
  struct Call {
    std::string id = {};
    std::string name = {};
    std::string arguments = {};  ///< JSON.
  };
  std::string content = {};
  std::string reasoning = {};
  std::vector<Call> calls = {};
  bool is_calling = false;  ///< The last call is incomplete.

  void add(const ResponseEvent& event);
  /// Whether there are calls and all of them are complete.
  bool has_called() const { return !calls.empty() && !is_calling; }
};

/// An invalid tool, or a schema that cannot be enforced. Messages may begin with "tools[i]".
class ToolSchemaError : public Error {
 public:
  ToolSchemaError(std::size_t tool_in, const std::string& message)
      : Error(ErrorCode::kInvalidArgument, message), tool(tool_in) {}
  std::size_t tool;  ///< Its index in ChatTurn::tools_json.
};

/// Limits the tokens of reasoning in a response (ChatTurn::reasoning_budget). The tokens of all reasoning
/// sections count together, without tags. At the budget the message and the closing tag are forced, after the
/// end of a character. The response then continues. A section that opens later is closed at once.
class ReasoningLimit {
 public:
  using MakeConstraint = std::function<std::unique_ptr<TokenConstraint>(int completion)>;
  /// The constraint of a request with this limit (RequestParams::constraint). `inner` constrains the request
  /// in addition; null: nothing does. Where `inner` does not allow a forced token, it decides. The tokenizer
  /// must outlive the constraints.
  MakeConstraint constraint(const Tokenizer& tokenizer, MakeConstraint inner = nullptr) const;

 private:
  friend class Chat;
  struct State;
  explicit ReasoningLimit(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

struct ChatOpening {
  std::vector<PromptPiece> prompt = {};
  /// With ChatTurn::find_divergences: where prompts of later turns are likely to diverge from this one, as
  /// offsets in its bytes (join), ascending. One is the start of the last user message, which the client may
  /// edit. The other is where the prompt of the next turn diverges, if that is before the end of this prompt.
  /// Templates of reasoning models drop the reasoning of earlier turns.
  std::vector<std::size_t> divergences = {};
  /// The constraint of the response, if one is needed: for required calls, for arguments with schemas, for
  /// content_grammar.
  std::optional<Grammar> grammar = std::nullopt;
  /// Set with ChatTurn::reasoning_budget, if the format has reasoning.
  std::optional<ReasoningLimit> reasoning_limit = std::nullopt;
  ResponseReader reader = {};
  std::vector<std::string> stop = {};  ///< The format's stop strings, in addition to the request's.
  /// Unknown roles, and parts of schemas that the grammar does not enforce (functions that are not strict).
  std::vector<std::string> warnings = {};
};

/// Converts offsets in the bytes of a prompt to numbers of tokens, for RequestParams::snapshot_at. `tokens`
/// are the prompt's. Only the part after the first offset is tokenized again. Leaves out offsets that no
/// token ends at.
std::vector<int> token_counts(const Tokenizer& tokenizer, std::span<const PromptPiece> prompt,
                              std::span<const std::size_t> offsets, std::span<const Token> tokens);

/// Immutable: any number of threads may use one.
class Chat {
 public:
  /// Detects the format from the template, or uses the one named by `format`. Throws Error kInvalidArgument
  /// for an unknown name.
  explicit Chat(ChatTemplate chat_template, std::string_view format = {});
  /// ChatML, for a model without a template. Its tags are stop strings: so they end a response even if they
  /// are not tokens of the vocabulary.
  static Chat chatml(const Tokenizer& tokenizer);
  ~Chat();
  Chat(const Chat&);
  Chat& operator=(const Chat&);

  /// Renders the prompt. Throws Error kInvalidArgument for invalid messages or tools and for what the
  /// template rejects. Throws ToolSchemaError for a strict function whose schema cannot be enforced.
  ChatOpening open(const ChatTurn& turn) const;
  std::string_view format() const;
  /// Whether the template itself renders tools. Otherwise the system prompt describes them.
  bool has_tools() const;
  bool has_reasoning() const;

  static std::vector<std::string> formats();
  /// The names that ChatTemplate accepts instead of Jinja ("chatml", "llama3", ...): llama.cpp's, sorted.
  static std::vector<std::string> template_names();

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// Deprecated names, for one version.
using AnswerEvent [[deprecated("use ResponseEvent")]] = ResponseEvent;
using AnswerReader [[deprecated("use ResponseReader")]] = ResponseReader;
using ChatAnswer [[deprecated("use ChatResponse")]] = ChatResponse;

}  // namespace weft

#pragma GCC visibility pop
