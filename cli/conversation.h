#pragma once
// A conversation over one sequence of a context: messages in, answers out. What the cache holds of earlier
// turns is used again; only the rest is computed. Prompts, tools and what answers are held to are made by
// weft::Chat, as the server makes them.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json_output.h"
#include "media_options.h"
#include "models/served_model.h"
#include "weft/chat.h"
#include "weft/context.h"
#include "weft/generate.h"
#include "weft/grammar.h"
#include "weft/media.h"
#include "weft/sampler.h"

namespace weft::cli {

struct ConversationMessage {
  std::string role = {};  ///< "system", "user", "assistant", "tool"
  std::string content = {};
  std::string reasoning = {};
  std::vector<ChatAnswer::Call> calls = {};
  std::string call_id = {};           ///< Of a tool's result.
  std::vector<MediaFile> media = {};  ///< Of the user; they stand in front of the text.
};

class Conversation {
 public:
  using Message = ConversationMessage;
  using Media = std::vector<MediaFile>;

  struct Params {
    server::ChatDefaults defaults = {};             ///< What the template is told.
    std::string system = {};                        ///< Empty: none.
    std::optional<Grammar> grammar = std::nullopt;  ///< What the answers' content is held to.
    ToolChoice tool_choice = ToolChoice::kAuto;     ///< kRequired: of the first answer to a question.
  };
  Conversation(Context& context, Chat chat, const SamplerParams& sampling, Params params);

  struct Turn {
    Generation generation;
    ChatAnswer answer;            ///< With calls only where they are whole: they wait for their results.
    int n_reused = 0;             ///< Tokens of the prompt that the cache still had.
    int n_forgotten = 0;          ///< Messages at the beginning that no longer fitted and were dropped.
    bool cut_call = false;        ///< The answer ended within a call, which is not kept.
    bool was_taken_back = false;  ///< Nothing came: the question is none of the conversation's.
  };
  /// How an answer is made, and who is told of it as it comes; its `constraint`, `special` and `on_text` are
  /// the conversation's. on_event returning false stops.
  struct Wishes {
    GenerateParams generate = {};
    std::function<bool(const AnswerEvent&)> on_event = {};
  };
  /// Adds the user's message and generates the answer, which becomes part of the conversation (also a
  /// cancelled one, as far as it came; where nothing came, the user's message is taken back).
  Turn ask(const std::string& text, Media media, const Wishes& wishes);
  /// The answer to the results of the last turn's calls, one for each. Where it fails, or nothing comes, the
  /// question is taken back. `may_call` false: no further calls.
  Turn go_on(const std::vector<std::string>& results, bool may_call, const Wishes& wishes);
  /// Forgets the last question and all that followed.
  void take_back();
  /// Throws the last answer away and generates another. Needs can_regenerate().
  Turn regenerate(const Wishes& wishes);
  bool can_regenerate() const;

  /// Forgets everything but the system prompt.
  void clear();
  void set_system(std::string system);
  /// Tools that the model may call from now on, as OpenAI's API has them; empty: none. Returns how many.
  /// Throws Error kInvalidArgument, and keeps those that were, for what is no such array.
  std::size_t set_tools(const std::string& tools_json);
  const std::string& tools() const { return tools_; }
  /// Takes the place of the conversation, the system prompt included.
  void set_messages(std::vector<Message> messages) { messages_ = std::move(messages); }
  const std::vector<Message>& messages() const { return messages_; }

 private:
  Turn answer(ToolChoice choice, const Wishes& wishes);
  ChatOpening open(ToolChoice choice) const;
  PromptWithMedia place(const ChatOpening& opening) const;
  bool forget_oldest();
  void keep(Turn& turn);

  Context* context_;
  Chat chat_;
  SamplerParams sampling_;
  Params params_;
  std::optional<GrammarCompiler> compiler_;  // Made when it is needed first.
  std::string tools_;
  std::uint64_t turns_ = 0;
  std::vector<Message> messages_;
  std::string media_mark_ = make_media_mark();
  std::vector<Token> cached_;  // what the sequence holds
};

/// As OpenAI's API has it, with this content.
Json to_json(const ConversationMessage& message, Json content);

}  // namespace weft::cli
