#pragma once
// What an OpenAI-compatible server answers, as it comes: events of a stream, or one object.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "json_output.h"

namespace weft::cli {

class LoadAnswer {
 public:
  /// `on_text` is called for each event that holds text (or a piece of reasoning, or of a tool call).
  explicit LoadAnswer(std::function<void()> on_text) : on_text_(std::move(on_text)) {}

  void head(int status, std::string_view content_type);
  /// False: it is no answer that can be understood (see error()).
  bool take(std::string_view piece);
  /// The answer is complete.
  void end();

  /// The kind of what went wrong, "" where nothing did: "http 429", "error in the stream", "not understood",
  /// "cut short", "no text", and behind it what the server says.
  const std::string& error() const { return error_; }
  const std::string& detail() const { return detail_; }

  std::int64_t n_prompt_tokens() const { return n_prompt_tokens_; }
  /// As the server counts them, or events with text where it does not.
  std::int64_t n_tokens() const { return n_tokens_ > 0 ? n_tokens_ : n_texts_; }
  bool counted() const { return n_tokens_ > 0; }
  const std::string& text() const { return text_; }
  /// Of its calls, one behind the other.
  const std::string& arguments() const { return arguments_; }
  const std::string& finish_reason() const { return finish_reason_; }

 private:
  void take_line(std::string_view line);
  void take_object(const Json& object);
  void take_text(const Json& holder, const char* name);
  void fail(std::string kind, std::string detail);

  std::function<void()> on_text_;
  int status_ = 0;
  bool streams_ = false, done_ = false;
  std::string rest_;  ///< The line that is not complete, or what is no stream.
  std::string error_, detail_, text_, arguments_, finish_reason_;
  std::int64_t n_prompt_tokens_ = 0, n_tokens_ = 0, n_texts_ = 0;
};

}  // namespace weft::cli
