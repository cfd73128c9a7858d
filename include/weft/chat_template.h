#pragma once
// A model's chat template: conversations to prompts. Templates are written in Jinja and come from untrusted
// model files: rendering is bounded in steps, depth and output and reaches nothing outside its arguments.
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

/// Immutable: any number of threads may render. Copies share the parsed template; moving copies.
class ChatTemplate {
 public:
  /// `source` is Jinja, or the name of a family (Chat::template_names). Throws Error kInvalidFile with line
  /// and reason for a template that does not parse.
  explicit ChatTemplate(std::string_view source, std::string bos_token = {}, std::string eos_token = {});
  ChatTemplate(std::string_view source, const Tokenizer& tokenizer);  ///< With its BOS and EOS.
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&);
  ChatTemplate& operator=(const ChatTemplate&);

  struct Options {
    bool add_generation_prompt = true;
    std::string tools_json = {};  ///< Empty, or a JSON array of tools as OpenAI's API has them.
    /// Empty, or a JSON object of further variables (not messages, tools or add_generation_prompt). The
    /// variable `now` ("2025-01-31", "2025-01-31T12:00:00" or seconds since 1970) is the time of
    /// strftime_now(), which does not exist without it: weft reads no clock, so that the same conversation
    /// gives the same prompt. It also gives date_string ("31 Jan 2025") and datetime, unless these are given.
    std::string variables_json = {};
  };
  /// Throws Error kInvalidArgument where the template raises an error or exceeds a bound.
  std::vector<PromptPiece> render(const std::vector<ChatMessage>& messages, const Options& options) const;
  /// The same with messages as a JSON array, for content parts and tool calls.
  std::vector<PromptPiece> render_json(std::string_view messages_json, const Options& options) const;
  std::string_view source() const;  ///< In Jinja.

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

std::string join(const std::vector<PromptPiece>& pieces);

}  // namespace weft

#pragma GCC visibility pop
