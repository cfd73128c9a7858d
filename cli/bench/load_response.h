#pragma once
// Parses the response of an OpenAI-compatible server piece by piece: the events of a stream, or one object.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "files/json_output.h"

namespace weft::cli {

class LoadResponse {
 public:
  /// Calls `on_text` for each event with content, reasoning or a piece of a tool call.
  explicit LoadResponse(std::function<void()> on_text) : on_text_(std::move(on_text)) {}

  void head(int status, std::string_view content_type);
  /// Returns false for an invalid response (see error()).
  bool take(std::string_view piece);
  /// Call at the end of the response.
  void end();

  /// The kind of error: "http 429", "error in the stream", "not understood", "cut short" or "no text"; ""
  /// without errors. detail() is the server's message.
  const std::string& error() const { return error_; }
  const std::string& detail() const { return detail_; }

  std::int64_t n_prompt_tokens() const { return n_prompt_tokens_; }
  /// As counted by the server; otherwise the number of events with content.
  std::int64_t n_tokens() const { return n_tokens_ > 0 ? n_tokens_ : n_texts_; }
  bool counted() const { return n_tokens_ > 0; }
  const std::string& text() const { return text_; }
  /// The arguments of its calls, concatenated.
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
  std::string rest_;  ///< The incomplete line, or the body of a response that is not a stream.
  std::string error_, detail_, text_, arguments_, finish_reason_;
  std::int64_t n_prompt_tokens_ = 0, n_tokens_ = 0, n_texts_ = 0;
};

}  // namespace weft::cli
