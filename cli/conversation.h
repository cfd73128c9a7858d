#pragma once
// A conversation over one sequence of a context: messages in, an answer out. What the cache holds of earlier
// turns is used again; only the rest is computed.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/chat_template.h"
#include "weft/context.h"
#include "weft/generate.h"
#include "weft/media.h"
#include "weft/sampler.h"

namespace weft::cli {

class Conversation {
 public:
  /// `chat_template` must outlive the conversation; `variables` are a JSON object for it, or empty. An empty
  /// `system` means none.
  Conversation(Context& context, const ChatTemplate& chat_template, std::string variables,
               const SamplerParams& sampling, std::string system);

  using Media = std::vector<std::shared_ptr<const EncodedMedia>>;

  struct Turn {
    Generation generation;
    int n_reused = 0;     ///< Tokens of the prompt that the cache still had.
    int n_forgotten = 0;  ///< Messages at the beginning that no longer fitted and were dropped.
  };
  /// Adds the user's message and generates the answer, which becomes part of the conversation (also a
  /// cancelled one, as far as it came; where nothing came, the user's message is taken back).
  /// Pictures and sounds stand in front of the text.
  Turn ask(const std::string& text, Media media, const GenerateParams& params);
  /// Throws the last answer away and generates another. Needs can_regenerate().
  Turn regenerate(const GenerateParams& params);
  bool can_regenerate() const;

  /// Forgets everything but the system prompt.
  void clear();
  void set_system(std::string system);
  /// Takes the place of the conversation, the system prompt included.
  void set_messages(const std::vector<ChatMessage>& messages);
  struct Message : ChatMessage {
    Media media = {};
  };
  const std::vector<Message>& messages() const { return messages_; }

 private:
  Turn answer(const GenerateParams& params);
  PromptWithMedia render() const;
  bool forget_oldest();

  Context* context_;
  const ChatTemplate* template_;
  ChatTemplate::Options template_options_;
  SamplerParams sampling_;
  std::uint64_t turns_ = 0;
  std::vector<Message> messages_;
  std::string media_mark_ = make_media_mark();
  std::vector<Token> cached_;  // what the sequence holds
};

}  // namespace weft::cli
