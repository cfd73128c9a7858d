#include "bench/load_response.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"

namespace weft::cli {
namespace {

/// Maximum bytes of a stream's line, and of a response in one piece.
constexpr std::size_t kMaxBytes = 64 << 20;
/// Maximum bytes of a server's error message.
constexpr std::size_t kMaxDetail = 300;

std::string string_or_empty(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t count_or_zero(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

/// Returns the message of {"error": {"message": ...}} or {"error": "..."}, otherwise `text`.
std::string message_of(const std::string& text) {
  const Json object = base::try_parse_json<Json>(text).value_or(nullptr);
  if (object.is_object() && object.contains("error")) {
    const Json& error = object["error"];
    if (error.is_string()) return error.get<std::string>();
    if (error.is_object() && !string_or_empty(error, "message").empty())
      return string_or_empty(error, "message");
  }
  return text;
}

}  // namespace

void LoadResponse::head(int status, std::string_view content_type) {
  status_ = status;
  streams_ = status == 200 && content_type.starts_with("text/event-stream");
}

void LoadResponse::fail(std::string kind, std::string detail) {
  if (!error_.empty()) return;
  error_ = std::move(kind);
  detail_ = std::move(detail);
  if (detail_.size() > kMaxDetail) detail_ = detail_.substr(0, kMaxDetail) + "...";
}

bool LoadResponse::take(std::string_view piece) {
  if (rest_.size() + piece.size() > kMaxBytes) {
    fail("not understood", "a line of the response is too long");
    return false;
  }
  if (!streams_) {
    rest_ += piece;
    return true;
  }
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    rest_ += piece.substr(0, end);
    if (end == piece.npos) break;
    piece.remove_prefix(end + 1);
    take_line(rest_);
    rest_.clear();
  }
  return error_.empty();
}

void LoadResponse::take_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with("data:")) return;  // Comments, names of events, the empty lines between them.
  line.remove_prefix(5);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (line == "[DONE]") {
    done_ = true;
    return;
  }
  const Json object = base::try_parse_json<Json>(line).value_or(nullptr);
  if (!object.is_object()) return fail("not understood", std::string(line));
  if (object.contains("error")) return fail("error in the stream", message_of(std::string(line)));
  take_object(object);
}

void LoadResponse::take_text(const Json& holder, const char* name) {
  const std::string text = string_or_empty(holder, name);
  if (text.empty()) return;
  if (std::string_view(name) == "content" || std::string_view(name) == "text") text_ += text;
  ++n_texts_;
  on_text_();
}

void LoadResponse::take_object(const Json& object) {
  if (const auto usage = object.find("usage"); usage != object.end() && usage->is_object()) {
    n_prompt_tokens_ = count_or_zero(*usage, "prompt_tokens");
    n_tokens_ = count_or_zero(*usage, "completion_tokens");
  }
  const auto choices = object.find("choices");
  if (choices == object.end() || !choices->is_array()) return;
  for (const Json& choice : *choices) {
    if (!choice.is_object()) continue;
    if (const std::string reason = string_or_empty(choice, "finish_reason"); !reason.empty())
      finish_reason_ = reason;
    take_text(choice, "text");
    for (const char* holder : {"delta", "message"}) {
      const auto found = choice.find(holder);
      if (found == choice.end() || !found->is_object()) continue;
      take_text(*found, "reasoning_content");
      take_text(*found, "content");
      const auto calls = found->find("tool_calls");
      if (calls == found->end() || !calls->is_array() || calls->empty()) continue;
      for (const Json& call : *calls)
        if (call.is_object() && call.contains("function") && call["function"].is_object())
          arguments_ += string_or_empty(call["function"], "arguments");
      ++n_texts_;
      on_text_();
    }
  }
}

void LoadResponse::end() {
  if (status_ != 200) return fail(fmt::format("http {}", status_), message_of(rest_));
  if (streams_) {
    if (!done_ && finish_reason_.empty()) fail("cut short", "the stream ended without [DONE]");
  } else {
    const Json object = base::try_parse_json<Json>(rest_).value_or(nullptr);
    if (!object.is_object()) return fail("not understood", rest_);
    take_object(object);
  }
  if (n_texts_ == 0) fail("no text", "the response has no content");
}

}  // namespace weft::cli
