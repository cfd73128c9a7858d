#include "api/generation.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/to_size.h"

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
  /// Submits the first prompts, on any thread.
  explicit Generation(GenerationParts parts)
      : request_(std::move(parts.request)),
        prompts_(std::move(parts.prompts)),
        params_(std::move(parts.params)),
        media_(std::move(parts.media)),
        writer_(std::move(parts.writer)),
        headers_(std::move(parts.headers)),
        keep_text_(std::move(parts.keep_text)),
        streams_(writer_->streams()),
        n_at_once_(std::max<std::size_t>(1, parts.n_at_once / to_size(params_.n))) {
    if (keep_text_) text_ = prompts_.front();
    while (has_room()) submit_next();
  }

  void start() {
    const std::weak_ptr<Generation> weak = weak_from_this();
    request_.exchange->on_closed([weak] {
      if (const auto self = weak.lock()) self->leave();
    });
    request_.exchange->on_drained([weak] {
      if (const auto self = weak.lock()) self->pump();
    });
    if (streams_) {
      request_.exchange->begin(200, writer_->content_type(), stream_headers(std::move(headers_)));
      std::string out;
      writer_->begin(out);
      if (!out.empty()) request_.exchange->write(std::move(out));
      if (!writer_->ping().empty()) ping_later();
    }
    // The on_ready callbacks of the responses hold the generation until it ends.
    for (Response& response : responses_) listen(response);
    pump();
  }

 private:
  void listen(Response& response) {
    response.on_ready([self = shared_from_this()] { self->wake(); });
  }

  bool has_room() const {
    return responses_.size() < prompts_.size() && responses_.size() - n_ended_ < n_at_once_;
  }
  void submit_next() {
    std::vector<Token>& prompt = prompts_[responses_.size()];
    RequestParams params = params_;
    if (!media_.empty()) params.parts = std::move(media_[responses_.size()]);
    responses_.push_back(submit_prompt(*request_.model, prompt, std::move(params)));
    ended_.push_back(false);
    prompt = {};
  }

  // Submits the next prompts as earlier ones end. If the queue is full, they are submitted later: the request
  // was accepted with all of its prompts.
  void submit_rest() {
    try {
      while (has_room()) {
        submit_next();
        listen(responses_.back());
      }
    } catch (const OverloadedError& error) {
      if (std::exchange(will_retry_, true)) return;
      const std::chrono::milliseconds time(static_cast<std::int64_t>(std::ceil(error.retry_after_ms)));
      request_.http->after(time, [self = shared_from_this()] {
        self->will_retry_ = false;
        self->pump();
      });
    }
  }

  // From the service's thread.
  void wake() {
    if (asked_.exchange(true)) return;
    try {
      request_.http->post([self = shared_from_this()] { self->pump(); });
    } catch (...) {
      asked_ = false;  // No memory: the next wake tries again.
    }
  }

  void pump() {
    asked_ = false;
    if (over_) return;
    std::string out;
    try {
      for (std::size_t i = 0; i < responses_.size() && !over_; ++i) read(i, out);
      if (!over_ && !writer_->has_enough()) submit_rest();
      const bool all_ended = n_ended_ == prompts_.size();
      if (!over_ && (all_ended || writer_->has_enough())) finish(out);
    } catch (...) {
      fail(to_api_error(std::current_exception()), out);
    }
    if (streams_ && !out.empty()) {
      request_.exchange->write(std::move(out));
      spoke_ = true;
    }
    if (streams_ && over_) request_.exchange->end();
    if (over_ && !makes_body_) release();
  }

  void read(std::size_t i, std::string& out) {
    if (ended_[i]) return;
    Output chunk;
    // For a slow client the rest stays in the service, which then pauses the stream.
    while (request_.exchange->n_unsent() + out.size() < kMaxUnsent) {
      const Response::Poll poll = responses_[i].poll(chunk);
      if (poll == Response::Poll::kNothingYet) return;
      if (poll == Response::Poll::kEnd) {
        ended_[i] = true;
        ++n_ended_;
        return;
      }
      if (keep_text_ && !request_.model->model->info().reads_source)  // T5 keeps the encoder input.
        for (const OutputToken& token : chunk.tokens) text_.push_back(token.id);
      if (chunk.done) {
        outcome_.completions.push_back(chunk.stats);
        if (chunk.not_numbers) {
          request_.model->note_failure(chunk.error);
        } else if (chunk.stop != StopReason::kError &&
                   (chunk.stats.n_generated > 0 || !chunk.embedding.empty())) {
          request_.model->note_failure({});
        }
        if (const auto error = error_of(chunk, *request_.model, request_.grammar_fault.get()))
          return fail(*error, out);
      }
      writer_->add(static_cast<int>(i) * params_.n + chunk.completion, chunk, out);
    }
  }

  void finish(std::string& out) {
    if (streams_) writer_->finish(out);
    over_ = true;
    for (const CompletionStats& stats : writer_->cut_short()) outcome_.completions.push_back(stats);
    if (keep_text_) keep_text_(std::move(text_));
    if (streams_) return;
    end_responses();
    if (!request_.workers->run(request_.client, [self = shared_from_this()] { self->make_body(); }))
      make_body();
    makes_body_ = true;
  }

  // On a worker: other clients must not wait for a large body. If the workers are overloaded, on the HTTP
  // server's thread.
  void make_body() {
    std::string body;
    std::optional<ApiError> error;
    try {
      writer_->finish(body);
    } catch (...) {
      error = to_api_error(std::current_exception());
    }
    request_.http->post([self = shared_from_this(), body = std::move(body),
                         error = std::move(error)]() mutable { self->send(std::move(body), error); });
  }

  void send(std::string body, const std::optional<ApiError>& error) {
    if (error)
      fail(*error, body);
    else
      request_.exchange->send({.body = std::move(body), .headers = std::move(headers_)});
    release();
  }

  void fail(const ApiError& error, std::string& out) {
    over_ = true;
    outcome_.status = error.status;
    outcome_.error = error.what();
    if (streams_) {
      writer_->fail(error, out);
    } else {
      HttpResponse answer = error_response(error, writer_->shape());
      answer.headers.insert(answer.headers.end(), headers_.begin(), headers_.end());
      request_.exchange->send(std::move(answer));
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
    for (Response& response : responses_) response.on_ready(nullptr);
    responses_.clear();  // Cancels unfinished ones.
  }

  void release() {
    end_responses();
    if (request_.done) std::exchange(request_.done, nullptr)(outcome_);
    request_.model.reset();
  }

  void ping_later() {
    request_.http->after(kPing, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr || self->over_) return;
      if (!std::exchange(self->spoke_, false))
        self->request_.exchange->write(std::string(self->writer_->ping()));
      self->ping_later();
    });
  }

  static constexpr std::size_t kMaxUnsent = std::size_t{512}
                                            << 10;  // More than HttpParams::high_water: on_drained follows.

  ServedRequest request_;
  std::vector<std::vector<Token>> prompts_;  ///< Submitted ones are empty.
  const RequestParams params_;
  std::vector<std::vector<EmbeddedPart>> media_;
  const std::unique_ptr<ResponseWriter> writer_;
  HttpHeaders headers_;
  const std::function<void(std::vector<Token>)> keep_text_;
  const bool streams_;
  const std::size_t n_at_once_;      ///< Prompts that are submitted at the same time.
  std::vector<Token> text_;          ///< For keep_text_.
  std::vector<Response> responses_;  ///< Of the submitted prompts.
  std::vector<bool> ended_;
  std::size_t n_ended_ = 0;
  bool over_ = false;
  bool makes_body_ = false;  ///< It is over, and its body is being made.
  bool will_retry_ = false;
  bool spoke_ = true;
  std::atomic<bool> asked_{false};
  Outcome outcome_;
};

}  // namespace

void ResponseWriter::fail(const ApiError& error, std::string& out) {
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
  HttpServer* const http = parts.request.http;
  http->post([generation = std::make_shared<Generation>(std::move(parts))] { generation->start(); });
}

}  // namespace weft::server
