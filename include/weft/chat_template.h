#pragma once
// A chat template renders a conversation into a prompt. Templates are Jinja from untrusted model files:
// rendering is limited in steps, depth and output, and has access to its arguments only.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/tokenizer.h"

#pragma GCC visibility push(default)

namespace weft {

struct ChatMessage {
  std::string role = {};  ///< "system", "user", "assistant", "tool"
  std::string content = {};
};

/// Immutable: any number of threads may render. Copies share the parsed template.
class ChatTemplate {
 public:
  /// `source` is Jinja, or a name in Chat::template_names(). Throws Error kInvalidFile, with line and reason,
  /// if the template does not parse.
  explicit ChatTemplate(std::string_view source, std::string bos_token = {}, std::string eos_token = {});
  ChatTemplate(std::string_view source, const Tokenizer& tokenizer);  ///< With the tokenizer's BOS and EOS.
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&);
  ChatTemplate& operator=(const ChatTemplate&);

  struct Options {
    bool add_generation_prompt = true;
    std::string tools_json = {};  ///< A JSON array of tools as in OpenAI's API, or empty.
    /// A JSON object of further variables, or empty. It must not have messages, tools or
    /// add_generation_prompt. The variable `now` is the time for strftime_now(): "2025-01-31",
    /// "2025-01-31T12:00:00" or seconds since 1970. Without `now`, strftime_now() does not exist. weft reads
    /// no clock, so the same conversation always gives the same prompt. `now` also sets date_string ("31 Jan
    /// 2025") and datetime, unless they are given.
    std::string variables_json = {};
  };
  /// Renders messages. Throws Error kInvalidArgument if the template raises an error or exceeds a limit.
  std::vector<PromptPiece> render(const std::vector<ChatMessage>& messages, const Options& options) const;
  /// The same with messages as a JSON array, which may have content parts and tool calls.
  std::vector<PromptPiece> render_json(std::string_view messages_json, const Options& options) const;
  std::string_view source() const;  ///< The template in Jinja.

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

std::string join(const std::vector<PromptPiece>& pieces);

}  // namespace weft

#pragma GCC visibility pop
