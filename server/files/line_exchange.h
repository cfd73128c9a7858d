#pragma once
// A request of a batch, as the API sees requests of clients.
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "http/http_server.h"

namespace weft::server {

class LineExchange final : public Exchange {
 public:
  /// Runs a call on the HTTP server's thread.
  using Post = std::function<void(std::function<void()>)>;
  /// `done` gets the response once, on any thread, unless cancel() comes first. It must not block.
  LineExchange(std::string path, std::string body, Post post, std::function<void(HttpResponse)> done);
  /// Without a response, `done` gets a 500.
  ~LineExchange() override;

  const HttpRequest& request() const override { return request_; }
  void send(HttpResponse answer) override;
  /// Batches have no streams: `done` gets a 400.
  void begin(int status, std::string content_type, HttpHeaders headers) override;
  void write(std::string) override {}
  void end() override {}
  void abort() override {}
  std::size_t n_unsent() const override { return 0; }
  std::size_t n_written() const override { return 0; }
  bool closed() const override { return closed_; }
  void on_closed(std::function<void()> call) override;
  void on_drained(std::function<void()>) override {}

  /// The batch wants no response any more.
  void cancel();

 private:
  const HttpRequest request_;
  const Post post_;
  std::mutex mutex_;
  std::function<void(HttpResponse)> done_;  ///< Empty once it was called, or after cancel().
  std::function<void()> on_closed_;
  std::atomic<bool> closed_ = false;
};

}  // namespace weft::server
