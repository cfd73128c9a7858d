#pragma once
// From what the service writes to what a client reads: one generating request under way.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"
#include "http/http_server.h"
#include "models/served_model.h"

namespace weft::server {

/// Writes the answer of one API. Used on the HTTP server's thread only. What is put into `out` is sent: of a
/// streamed answer at once, else it is the body.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual bool streams() const = 0;
  virtual ErrorShape shape() const { return ErrorShape::kOpenAi; }
  virtual void begin(std::string& /*out*/) {}  ///< Streamed answers only.
  /// What a completion has written. The first prompt's completions come first, then the second's.
  virtual void add(int choice, const Chunk& chunk, std::string& out) = 0;
  /// What is still generated is not needed: finish() follows, and the rest is cancelled.
  virtual bool has_enough() const { return false; }
  /// The counts of completions that has_enough() ends before their last chunk.
  virtual std::vector<CompletionStats> cut_short() const { return {}; }
  /// All have ended.
  virtual void finish(std::string& out) = 0;
  /// In a streamed answer that has begun: an error instead of finish().
  virtual void fail(const ApiError& error, std::string& out);
};

/// "data: JSON\n\n", with an event's name where there is one.
void add_event(std::string& out, std::string_view json, std::string_view name = {});

/// How a request went, for logs and traces.
struct Outcome {
  int status = 200;
  std::string error = {};
  std::vector<CompletionStats> completions = {};
};

struct GenerationParts {
  HttpServer* http = nullptr;
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<ServedModel> model;
  std::vector<Response> responses;  ///< One a prompt.
  int n = 1;                        ///< Completions of each.
  /// Prompts that are submitted as others end, so that a request of many does not fill the queue by itself.
  std::vector<std::vector<Token>> rest = {};
  RequestParams params = {};  ///< Of these.
  std::unique_ptr<AnswerWriter> writer;
  HttpHeaders headers = {};
  /// Gets the text of the only completion with what it was given in front, once it has ended.
  std::function<void(std::vector<Token>)> keep_text = nullptr;
  std::vector<Token> text = {};
  std::function<void(const Outcome&)> done = nullptr;  ///< On the HTTP server's thread, once.
};

/// Any thread. The answer is written until its end; a client that leaves cancels what it asked for, one that
/// reads slowly pauses it.
void start_generation(GenerationParts parts);

}  // namespace weft::server
