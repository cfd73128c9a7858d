#pragma once
// A conversation. Cached tokens of earlier turns are reused; only the rest is computed. weft::Chat makes
// prompts, tools and constraints, as in the server.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/completer.h"
#include "files/json_output.h"
#include "models/served_model.h"
#include "options/media_options.h"
#include "weft/chat.h"
#include "weft/grammar.h"
#include "weft/media.h"
#include "weft/sampler.h"

namespace weft::cli {

struct ConversationMessage {
  std::string role = {};  ///< "system", "user", "assistant", "tool"
  std::string content = {};
  std::string reasoning = {};
  std::vector<ChatResponse::Call> calls = {};
  std::string call_id = {};           ///< Of a tool's result.
  std::vector<MediaFile> media = {};  ///< Of a user message; placed before its content.
};

class Conversation {
 public:
  using Message = ConversationMessage;
  using Media = std::vector<MediaFile>;

  struct Params {
    server::ChatDefaults defaults = {};             ///< Variables of the template.
    std::string system = {};                        ///< Empty: none.
    std::optional<Grammar> grammar = std::nullopt;  ///< Constrains the content of responses.
    ToolChoice tool_choice = ToolChoice::kAuto;  ///< kRequired applies to the first response to a question.
  };
  /// The completer must outlive it.
  Conversation(Completer& completer, Chat chat, const SamplerParams& sampling, Params params);

  struct Turn {
    Completion completion;
    ChatResponse answer;          ///< Calls only if complete: they wait for their results.
    int n_forgotten = 0;          ///< Messages at the beginning that no longer fitted and were dropped.
    bool cut_call = false;        ///< The response ended within a call, which is dropped.
    bool was_taken_back = false;  ///< Nothing was generated, so the question was removed.
  };
  struct Requirements {
    int n_predict = -1;  ///< The most tokens of the response. < 0: no limit.
    std::function<void(const ResponseEvent&)> on_event = {};
    std::function<bool()> goes_on = {};  ///< Asked after each step. False stops the response.
  };
  /// Adds the user's message and generates the response, which joins the conversation, also if cancelled. If
  /// nothing was generated, the user's message is removed.
  Turn ask(const std::string& text, Media media, const Requirements& wishes);
  /// Generates the response to the results of the last turn's calls, one for each. If it fails or nothing is
  /// generated, the question is removed. `may_call` false: no further calls.
  Turn go_on(const std::vector<std::string>& results, bool may_call, const Requirements& wishes);
  /// Removes the last question and all that followed.
  void take_back();
  /// Discards the last response and generates another. Needs can_regenerate().
  Turn regenerate(const Requirements& wishes);
  bool can_regenerate() const;

  /// Removes everything but the system prompt.
  void clear();
  void set_system(std::string system);
  /// Sets the tools that the model may call from now on, in OpenAI's format; empty: none. Returns how many.
  /// Throws Error kInvalidArgument, and keeps the old tools, if it is not such an array.
  std::size_t set_tools(const std::string& tools_json);
  const std::string& tools() const { return tools_; }
  /// Replaces the conversation, the system prompt included.
  void set_messages(std::vector<Message> messages) { messages_ = std::move(messages); }
  const std::vector<Message>& messages() const { return messages_; }

 private:
  Turn answer(ToolChoice choice, const Requirements& wishes);
  ChatOpening open(ToolChoice choice) const;
  PromptWithMedia place(const ChatOpening& opening) const;
  bool forget_oldest();
  void keep(Turn& turn);

  Completer& completer_;
  Chat chat_;
  SamplerParams sampling_;
  Params params_;
  std::optional<GrammarCompiler> compiler_;  // Made at first use.
  std::string tools_;
  std::uint64_t turns_ = 0;
  std::vector<Message> messages_;
  std::string media_mark_ = make_media_marker();
};

/// The message in OpenAI's format, with this content.
Json to_json(const ConversationMessage& message, Json content);

}  // namespace weft::cli
