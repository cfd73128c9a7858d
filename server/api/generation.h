#pragma once
// One generating request: writes the chunks of the service to the client.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"
#include "api/served_request.h"

namespace weft::server {

/// The content type of a stream of events.
inline constexpr const char* kEventStream = "text/event-stream; charset=utf-8";

/// Writes the response of one API. Used on the HTTP server's thread, except for finish(). The contents of
/// `out` are sent at once if the response is streamed; otherwise they become the body.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  virtual bool streams() const = 0;
  virtual ErrorShape shape() const { return ErrorShape::kOpenAi; }
  virtual const char* content_type() const { return kEventStream; }  ///< Of a streamed response.
  /// Bytes without a meaning for a stream that is idle; empty: its format has none.
  virtual std::string_view ping() const { return ": ping\n\n"; }
  virtual void begin(std::string& /*out*/) {}  ///< Streamed responses only.
  /// A chunk of a completion. The first prompt's completions are numbered first, then the second's.
  virtual void add(int choice, const Output& chunk, std::string& out) = 0;
  /// True if no more chunks are needed: finish() follows, and the rest is cancelled.
  virtual bool has_enough() const { return false; }
  /// The counts of completions that has_enough() ends before their last chunk.
  virtual std::vector<CompletionStats> cut_short() const { return {}; }
  /// All have ended. If the response is not streamed, its body may be large, and a worker makes it.
  virtual void finish(std::string& out) = 0;
  /// Writes an error instead of finish(), into a streamed response that has begun.
  virtual void fail(const ApiError& error, std::string& out);
};

/// With the headers that keep caches and proxies from holding a stream back.
HttpHeaders stream_headers(HttpHeaders headers);
/// "data: JSON\n\n", with an event's name where there is one.
void add_event(std::string& out, std::string_view json, std::string_view name = {});

struct GenerationParts {
  ServedRequest request;
  /// The first ones are submitted at once. The rest are submitted as others end, so that a request of many
  /// does not fill the queue by itself. Where the queue is full then, they wait.
  std::vector<std::vector<Token>> prompts;
  RequestParams params = {};
  std::vector<std::vector<EmbeddedPart>> media = {};  ///< Of each prompt; empty: params.parts of all.
  std::unique_ptr<ResponseWriter> writer;
  HttpHeaders headers = {};
  /// Gets the prompt and the tokens of the only completion, once it has ended.
  std::function<void(std::vector<Token>)> keep_text = nullptr;
  std::size_t n_at_once = 128;  ///< Completions in the queue, at most; a prompt's completions stay together.
};

/// Service::submit, where an n_keep below 0 means the whole prompt.
Response submit_prompt(ServedModel& model, std::vector<Token> prompt, RequestParams params);

/// Any thread. Submits the first prompts and writes the response to its end. If the client leaves, its
/// request is cancelled. A slow client pauses only its own stream. If a prompt is refused, for example with
/// OverloadedError, this throws, and those submitted before are cancelled.
void start_generation(GenerationParts parts);

}  // namespace weft::server
