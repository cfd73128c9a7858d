#include "api/generation.h"

#include <atomic>
#include <cmath>
#include <utility>

namespace weft::server {
namespace {

/// The interval of pings in an idle stream, so that proxies do not close it.
constexpr std::chrono::seconds kPing{10};

/// The error of a completion that ended without a result for its client.
std::optional<ApiError> error_of(const Output& chunk, const ServedModel& model, const GrammarFault* grammar) {
  switch (chunk.stop) {
    case StopReason::kError:
      if (const auto gone = model.gone()) return gone;
      if (chunk.not_numbers) return not_numbers(chunk.error);
      if (grammar != nullptr)
        if (auto fault = grammar->get()) return fault;
      return ApiError(500, "server_error", "generation_failed", "",
                      chunk.error.empty() ? "the computation failed" : chunk.error);
    case StopReason::kCancelled:
      if (const auto gone = model.gone()) return gone;
      return unavailable("cancelled", "the server is shutting down");
    case StopReason::kTimeout:
      if (chunk.stats.n_generated > 0) return std::nullopt;
      return unavailable("timeout", "the request timed out in the queue");
    default:
      return std::nullopt;
  }
}

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  explicit Generation(GenerationParts parts)
      : parts_(std::move(parts)),
        streams_(parts_.writer->streams()),
        n_at_once_(parts_.responses.size()),
        ended_(n_at_once_) {}

  void start() {
    const std::weak_ptr<Generation> weak = weak_from_this();
    parts_.exchange->on_closed([weak] {
      if (const auto self = weak.lock()) self->leave();
    });
    parts_.exchange->on_drained([weak] {
      if (const auto self = weak.lock()) self->pump();
    });
    if (streams_) {
      parts_.exchange->begin(200, kEventStream, stream_headers(std::move(parts_.headers)));
      std::string out;
      parts_.writer->begin(out);
      if (!out.empty()) parts_.exchange->write(std::move(out));
      ping_later();
    }
    // The on_ready callbacks of the responses hold the generation until it ends.
    for (Response& response : parts_.responses) listen(response);
    pump();
  }

 private:
  void listen(Response& response) {
    response.on_ready([self = shared_from_this()] { self->wake(); });
  }

  // Submits the next prompts as earlier ones end. If the queue is full, they are submitted later: the request
  // was accepted with all of its prompts.
  void submit_rest() {
    try {
      while (n_submitted_ < parts_.rest.size() && parts_.responses.size() - n_ended_ < n_at_once_) {
        parts_.responses.push_back(submit_prompt(*parts_.model, parts_.rest[n_submitted_], parts_.params));
        parts_.rest[n_submitted_++] = {};
        ended_.push_back(false);
        listen(parts_.responses.back());
      }
    } catch (const OverloadedError& error) {
      if (std::exchange(will_retry_, true)) return;
      const std::chrono::milliseconds time(static_cast<std::int64_t>(std::ceil(error.retry_after_ms)));
      parts_.http->after(time, [self = shared_from_this()] {
        self->will_retry_ = false;
        self->pump();
      });
    }
  }

  // From the service's thread.
  void wake() {
    if (asked_.exchange(true)) return;
    try {
      parts_.http->post([self = shared_from_this()] { self->pump(); });
    } catch (...) {
      asked_ = false;  // No memory: the next wake tries again.
    }
  }

  void pump() {
    asked_ = false;
    if (over_) return;
    std::string out;
    try {
      for (std::size_t i = 0; i < parts_.responses.size() && !over_; ++i) read(i, out);
      if (!over_ && !parts_.writer->has_enough()) submit_rest();
      const bool all_ended = n_ended_ == parts_.responses.size() && n_submitted_ == parts_.rest.size();
      if (!over_ && (all_ended || parts_.writer->has_enough())) finish(out);
    } catch (...) {
      fail(to_api_error(std::current_exception()), out);
    }
    if (streams_ && !out.empty()) {
      parts_.exchange->write(std::move(out));
      spoke_ = true;
    }
    if (streams_ && over_) parts_.exchange->end();
    if (over_ && !makes_body_) release();
  }

  void read(std::size_t i, std::string& out) {
    if (ended_[i]) return;
    Output chunk;
    // For a slow client the rest stays in the service, which then pauses the stream.
    while (parts_.exchange->n_unsent() + out.size() < kMaxUnsent) {
      const Response::Poll poll = parts_.responses[i].poll(chunk);
      if (poll == Response::Poll::kNothingYet) return;
      if (poll == Response::Poll::kEnd) {
        ended_[i] = true;
        ++n_ended_;
        return;
      }
      if (parts_.keep_text && !parts_.model->model->info().reads_source)  // T5 keeps the encoder input.
        for (const OutputToken& token : chunk.tokens) parts_.text.push_back(token.id);
      if (chunk.done) {
        outcome_.completions.push_back(chunk.stats);
        if (chunk.not_numbers) {
          parts_.model->note_failure(chunk.error);
        } else if (chunk.stop != StopReason::kError &&
                   (chunk.stats.n_generated > 0 || !chunk.embedding.empty())) {
          parts_.model->note_failure({});
        }
        if (const auto error = error_of(chunk, *parts_.model, parts_.grammar_fault.get()))
          return fail(*error, out);
      }
      parts_.writer->add(static_cast<int>(i) * parts_.n + chunk.completion, chunk, out);
    }
  }

  void finish(std::string& out) {
    if (streams_) parts_.writer->finish(out);
    over_ = true;
    for (const CompletionStats& stats : parts_.writer->cut_short()) outcome_.completions.push_back(stats);
    if (parts_.keep_text) parts_.keep_text(std::move(parts_.text));
    if (streams_) return;
    end_responses();
    if (!parts_.workers->run(parts_.client, [self = shared_from_this()] { self->make_body(); })) make_body();
    makes_body_ = true;
  }

  // On a worker: other clients must not wait for a large body. If the workers are overloaded, on the HTTP
  // server's thread.
  void make_body() {
    std::string body;
    std::optional<ApiError> error;
    try {
      parts_.writer->finish(body);
    } catch (...) {
      error = to_api_error(std::current_exception());
    }
    parts_.http->post([self = shared_from_this(), body = std::move(body),
                       error = std::move(error)]() mutable { self->send(std::move(body), error); });
  }

  void send(std::string body, const std::optional<ApiError>& error) {
    if (error)
      fail(*error, body);
    else
      parts_.exchange->send({.body = std::move(body), .headers = std::move(parts_.headers)});
    release();
  }

  void fail(const ApiError& error, std::string& out) {
    over_ = true;
    outcome_.status = error.status;
    outcome_.error = error.what();
    if (streams_) {
      parts_.writer->fail(error, out);
    } else {
      HttpAnswer answer = error_answer(error, parts_.writer->shape());
      answer.headers.insert(answer.headers.end(), parts_.headers.begin(), parts_.headers.end());
      parts_.exchange->send(std::move(answer));
    }
  }

  // The client has gone.
  void leave() {
    if (over_) return;
    over_ = true;
    outcome_.status = 499;
    outcome_.error = "the client disconnected";
    release();
  }

  void end_responses() {
    for (Response& response : parts_.responses) response.on_ready(nullptr);
    parts_.responses.clear();  // Cancels unfinished ones.
  }

  void release() {
    end_responses();
    if (parts_.done) std::exchange(parts_.done, nullptr)(outcome_);
    parts_.model.reset();
  }

  void ping_later() {
    parts_.http->after(kPing, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr || self->over_) return;
      if (!std::exchange(self->spoke_, false)) self->parts_.exchange->write(": ping\n\n");
      self->ping_later();
    });
  }

  static constexpr std::size_t kMaxUnsent = std::size_t{512}
                                            << 10;  // More than HttpParams::high_water: on_drained follows.

  GenerationParts parts_;
  const bool streams_;
  const std::size_t n_at_once_;  ///< Prompts that are submitted at the same time.
  std::vector<bool> ended_;
  std::size_t n_ended_ = 0;
  std::size_t n_submitted_ = 0;  ///< Of the rest.
  bool over_ = false;
  bool makes_body_ = false;  ///< It is over, and its body is being made.
  bool will_retry_ = false;
  bool spoke_ = true;
  std::atomic<bool> asked_{false};
  Outcome outcome_;
};

}  // namespace

void AnswerWriter::fail(const ApiError& error, std::string& out) {
  add_event(out, to_text(error_json(error, shape())));
}

HttpHeaders stream_headers(HttpHeaders headers) {
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");
  return headers;
}

void add_event(std::string& out, std::string_view json, std::string_view name) {
  if (!name.empty()) {
    out += "event: ";
    out += name;
    out += '\n';
  }
  out += "data: ";
  out += json;
  out += "\n\n";
}

Response submit_prompt(ServedModel& model, std::vector<Token> prompt, RequestParams params) {
  if (params.n_keep < 0) params.n_keep = static_cast<int>(prompt.size());
  return model.service->submit(std::move(prompt), std::move(params));
}

void start_generation(GenerationParts parts) {
  HttpServer* const http = parts.http;
  http->post([generation = std::make_shared<Generation>(std::move(parts))] { generation->start(); });
}

}  // namespace weft::server
