#pragma once
// Responses of Ollama's API.
#include <chrono>
#include <string>
#include <vector>

#include "api/chat_order.h"
#include "api/generation.h"

namespace weft::server {

/// "2026-11-30T07:59:33.123456Z"
std::string ollama_time(std::chrono::system_clock::time_point time);

enum class OllamaForm : std::uint8_t {
  kChat,      ///< The content is in message.content.
  kGenerate,  ///< In response.
};

/// The beginning of a response. `reason` empty: more follows. Otherwise it is the last one.
Json ollama_json(OllamaForm form, const std::string& model, std::string_view text, std::string_view reason);

struct OllamaStyle {
  OllamaForm form = OllamaForm::kChat;
  bool stream = true;
  bool logprobs = false;
  std::string model = {};
  std::chrono::steady_clock::time_point start = {};  ///< Of the request.
  std::chrono::nanoseconds load_time{0};
  /// The end of the response returns these and the generated tokens as "context". Empty: it does not.
  std::vector<Token> context = {};
};

class OllamaWriter : public ResponseWriter {
 public:
  OllamaWriter(OllamaStyle style, std::shared_ptr<ServedModel> model, ReadResponse answer)
      : style_(std::move(style)), model_(std::move(model)), response_(std::move(answer)) {}

  bool streams() const override { return style_.stream; }
  ErrorShape shape() const override { return ErrorShape::kOllama; }
  const char* content_type() const override { return "application/x-ndjson"; }
  std::string_view ping() const override { return {}; }  // Clients parse every line.
  void add(int choice, const Output& chunk, std::string& out) override;
  void finish(std::string& out) override;
  void fail(const ApiError& error, std::string& out) override;

 private:
  void tell(const ResponseEvent& event, std::string& out);
  void add_line(std::string& out, Json json);
  Json& message_of(Json& json) const;
  Json calls_json(std::size_t first, std::size_t end) const;
  void add_end(Json& json);

  OllamaStyle style_;
  const std::shared_ptr<ServedModel> model_;
  ReadResponse response_;
  Json logprobs_ = Json::array();  ///< Of tokens that no line has yet.
};

}  // namespace weft::server
