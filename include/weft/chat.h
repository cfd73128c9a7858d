#pragma once
// Chat formats: turn a conversation into a prompt, and parse the response into content, reasoning and tool
// calls. Each format is a description; see Chat::formats().
//
//   weft::Chat chat(*model->chat_template());
//   weft::ChatOpening opening = chat.open(turn);
//   ... a completion of opening.prompt, with special tokens in its text ...
//   for (const weft::AnswerEvent& event : opening.reader.push(chunk.text)) ...
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/chat_template.h"
#include "weft/error.h"
#include "weft/grammar.h"

#pragma GCC visibility push(default)

namespace weft {

enum class ToolChoice : std::uint8_t { kNone, kAuto, kRequired, kNamed };

/// A turn of a conversation: messages, tools and options.
struct ChatTurn {
  /// A JSON array of messages as OpenAI's chat API has them: content as a string or as parts of text,
  /// tool_calls with arguments as strings, role "tool" with tool_call_id, "developer" for "system",
  /// reasoning_content.
  std::string messages_json = {};
  std::string tools_json = {};  ///< Empty, or a JSON array of OpenAI's tools.
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name = {};  ///< With kNamed.
  /// Allows several calls in a response, kMostCalls at most. Unset: with kAuto only. With kNamed there
  /// is always one.
  std::optional<bool> parallel_tool_calls = std::nullopt;
  static constexpr int kMostCalls = 32;  ///< Enforced wherever ChatOpening::grammar is set.
  /// False: arguments of functions that are not strict are any JSON object, whatever their schemas say.
  bool hold_arguments = true;
  /// "", "none", "minimal", "low", "medium", "high": for templates that know them; "none" turns reasoning off
  /// where the template can.
  std::string reasoning_effort = {};
  /// Whether the model reasons before it responds, for templates with a switch. Nothing: the template
  /// decides. All below and reasoning_effort take precedence.
  std::optional<bool> reasoning = std::nullopt;
  /// As variables_json, for variables that the turn does not set: reasoning_effort takes precedence.
  std::string default_variables_json = {};
  /// Empty, or an object of further variables for the template. `now` (ChatTemplate::Options) also gives the
  /// dates that families' templates name otherwise: date_string, datetime.
  std::string variables_json = {};
  /// False: the last message is the start of the response, to be continued.
  bool add_generation_prompt = true;
  /// The grammar of the content (response_format); reasoning before it is not restricted.
  std::optional<Grammar> content_grammar = std::nullopt;
};

struct AnswerEvent {
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

/// Parses one response as it is generated. Chunks may be cut anywhere. An event is emitted as soon as its
/// kind is certain, never with a partial tag. Never throws on a model's output: an incomplete call is
/// content.
class AnswerReader {
 public:
  AnswerReader();  ///< Without a format: everything is content.
  ~AnswerReader();
  AnswerReader(AnswerReader&&) noexcept;
  AnswerReader& operator=(AnswerReader&&) noexcept;
  AnswerReader(const AnswerReader&);  ///< One per completion.
  AnswerReader& operator=(const AnswerReader&);

  std::vector<AnswerEvent> push(std::string_view text);
  /// The response has ended: returns the events held back. If the response was cut off, a partial tag is
  /// dropped.
  std::vector<AnswerEvent> finish(bool was_cut = false);
  /// The number of calls so far. If it is not 0, the finish reason is "tool_calls".
  int n_calls() const;

 private:
  friend class Chat;
  struct State;
  std::unique_ptr<State> state_;
};

/// A response so far, assembled from its events.
struct ChatAnswer {
  struct Call {
    std::string id = {};
    std::string name = {};
    std::string arguments = {};  ///< JSON.
  };
  std::string content = {};
  std::string reasoning = {};
  std::vector<Call> calls = {};
  bool is_calling = false;  ///< The last call is incomplete.

  void add(const AnswerEvent& event);
  /// The response ends with calls, and all of them are complete.
  bool has_called() const { return !calls.empty() && !is_calling; }
};

/// An invalid tool, or a schema that cannot be enforced. The message may begin with "tools[i]".
class ToolSchemaError : public Error {
 public:
  ToolSchemaError(std::size_t tool_in, const std::string& message)
      : Error(ErrorCode::kInvalidArgument, message), tool(tool_in) {}
  std::size_t tool;  ///< Its index in ChatTurn::tools_json.
};

struct ChatOpening {
  std::vector<PromptPiece> prompt = {};
  /// The response's constraint: required calls, arguments by their schemas, the content's grammar.
  std::optional<Grammar> grammar = std::nullopt;
  AnswerReader reader = {};
  std::vector<std::string> stop = {};  ///< Further stop strings of the format.
  /// Parts of schemas that the grammar does not enforce, for functions that are not strict.
  std::vector<std::string> warnings = {};
};

/// Immutable: any number of threads.
class Chat {
 public:
  /// Detects the format from the template; `format` names another. Throws Error kInvalidArgument for an
  /// unknown name.
  explicit Chat(ChatTemplate chat_template, std::string_view format = {});
  /// ChatML, for a model whose file has no template. Its tags are stop strings, so that they end a response
  /// even if the vocabulary has no tokens for them.
  static Chat chatml(const Tokenizer& tokenizer);
  ~Chat();
  Chat(const Chat&);
  Chat& operator=(const Chat&);

  /// Throws Error kInvalidArgument for messages and tools that are invalid, or that the template rejects.
  /// Throws ToolSchemaError for a strict function whose schema cannot be enforced.
  ChatOpening open(const ChatTurn& turn) const;
  std::string_view format() const;
  bool has_tools() const;  ///< The template itself writes tools; otherwise the system prompt describes them.
  bool has_reasoning() const;

  static std::vector<std::string> formats();
  /// Families whose templates ChatTemplate accepts by name in place of Jinja, "chatml", "llama3", ...:
  /// llama.cpp's names, sorted.
  static std::vector<std::string> template_names();

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
