#include "api/ollama/writer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <utility>

#include "base/to_size.h"

namespace weft::server {
namespace {

std::int64_t nanoseconds(double ms) { return std::llround(ms * 1e6); }

}  // namespace

std::string ollama_time(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(seconds), us % 1'000'000);
}

Json ollama_json(OllamaForm form, const std::string& model, std::string_view text, std::string_view reason) {
  Json json = {{"model", model}, {"created_at", ollama_time(std::chrono::system_clock::now())}};
  if (form == OllamaForm::kChat)
    json["message"] = {{"role", "assistant"}, {"content", text}};
  else
    json["response"] = text;
  json["done"] = !reason.empty();
  if (!reason.empty()) json["done_reason"] = reason;
  return json;
}

Json& OllamaWriter::message_of(Json& json) const {
  return style_.form == OllamaForm::kChat ? json["message"] : json;
}

void OllamaWriter::add_line(std::string& out, Json json) {
  if (style_.logprobs && !logprobs_.empty()) json["logprobs"] = std::exchange(logprobs_, Json::array());
  out += to_text(json);
  out += '\n';
}

Json OllamaWriter::calls_json(std::size_t first, std::size_t end) const {
  Json calls = Json::array();
  for (std::size_t i = first; i < end; ++i) {
    const ToolCall& call = response_.calls[i];
    calls.push_back(
        {{"id", call.id},
         {"function", {{"index", i}, {"name", call.name}, {"arguments", arguments_json(call.arguments)}}}});
  }
  return calls;
}

void OllamaWriter::add(int /*choice*/, const Output& chunk, std::string& out) {
  if (style_.logprobs)
    for (const OutputToken& token : chunk.tokens)
      if (!model_->tokenizer().is_end(token.id))
        logprobs_.push_back(logprob_json(token, model_->tokenizer()));
  if (!style_.context.empty())
    for (const OutputToken& token : chunk.tokens) style_.context.push_back(token.id);
  for (const ResponseEvent& event : response_.read(chunk, "call_"))
    if (style_.stream) tell(event, out);
}

void OllamaWriter::tell(const ResponseEvent& event, std::string& out) {
  using Kind = ResponseEvent::Kind;
  Json json = ollama_json(style_.form, style_.model, event.kind == Kind::kContent ? event.text : "", "");
  switch (event.kind) {
    case Kind::kContent:
      break;
    case Kind::kReasoning:
      message_of(json)["thinking"] = event.text;
      break;
    case Kind::kToolCallEnd:
      message_of(json)["tool_calls"] = calls_json(to_size(event.call), to_size(event.call) + 1);
      break;
    default:
      return;  // A call is sent as a whole.
  }
  add_line(out, std::move(json));
}

/// The counts, and the reason of the end.
void OllamaWriter::add_end(Json& json) {
  const CompletionStats& stats = response_.stats;
  const auto total = std::chrono::steady_clock::now() - style_.start;
  json["total_duration"] = std::chrono::duration_cast<std::chrono::nanoseconds>(total).count();
  json["load_duration"] = style_.load_time.count();
  json["prompt_eval_count"] = stats.n_prompt;
  json["prompt_eval_duration"] = nanoseconds(stats.prefill_ms());
  json["eval_count"] = stats.n_generated;
  json["eval_duration"] = nanoseconds(stats.decode_ms());
  if (!style_.context.empty()) json["context"] = std::move(style_.context);
}

void OllamaWriter::finish(std::string& out) {
  const std::string_view reason = finish_reason(response_.stop);
  Json json = ollama_json(style_.form, style_.model, style_.stream ? "" : response_.content, reason);
  if (!style_.stream) {
    Json& message = message_of(json);
    if (!response_.reasoning.empty()) message["thinking"] = response_.reasoning;
    // A call that was cut is left out, as in a stream.
    const std::size_t n_calls = response_.calls.size() - (response_.is_calling ? 1 : 0);
    if (n_calls > 0) message["tool_calls"] = calls_json(0, n_calls);
  }
  add_end(json);
  add_line(out, std::move(json));
}

void OllamaWriter::fail(const ApiError& error, std::string& out) {
  add_line(out, error_json(error, ErrorShape::kOllama));
}

}  // namespace weft::server
