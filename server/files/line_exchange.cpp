#include "files/line_exchange.h"

#include <utility>

#include "api/error.h"

namespace weft::server {

LineExchange::LineExchange(std::string path, std::string body, Post post,
                           std::function<void(HttpResponse)> done)
    : request_{.method = "POST", .path = std::move(path), .body = std::move(body)},
      post_(std::move(post)),
      done_(std::move(done)) {}

LineExchange::~LineExchange() {
  if (done_)
    done_(error_response({500, "server_error", "internal_error", "", "the server failed to respond"},
                         ErrorShape::kOpenAi));
}

void LineExchange::send(HttpResponse answer) {
  std::function<void(HttpResponse)> done;
  std::function<void()> dropped;  // Freed without the lock: it may hold this exchange.
  {
    const std::lock_guard lock(mutex_);
    done = std::exchange(done_, nullptr);
    dropped = std::exchange(on_closed_, nullptr);
  }
  if (done) done(std::move(answer));
}

void LineExchange::begin(int, std::string, HttpHeaders) {
  send(error_response(bad_request("stream", "requests of a batch cannot be streamed"), ErrorShape::kOpenAi));
}

void LineExchange::on_closed(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    post_(std::move(call));
  } else if (done_) {
    on_closed_ = std::move(call);
  }
}

void LineExchange::cancel() {
  std::function<void(HttpResponse)> dropped;
  const std::lock_guard lock(mutex_);
  dropped = std::exchange(done_, nullptr);
  if (dropped == nullptr) return;
  closed_ = true;
  if (on_closed_) post_(std::exchange(on_closed_, nullptr));
}

}  // namespace weft::server
