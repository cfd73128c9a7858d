#pragma once
// An exchange without a socket.
#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <utility>

#include "http/http_server.h"

namespace weft::server {

class FakeExchange final : public Exchange {
 public:
  explicit FakeExchange(HttpRequest request) : request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }
  void send(HttpResponse answer) override { response_.set_value(std::move(answer)); }
  void begin(int, std::string, HttpHeaders) override {}
  void write(std::string) override {}
  void end() override {}
  void abort() override {}
  std::size_t n_unsent() const override { return 0; }
  std::size_t n_written() const override { return 0; }
  bool closed() const override { return closed_; }
  void on_closed(std::function<void()>) override {}
  void on_drained(std::function<void()>) override {}

  void close() { closed_ = true; }
  HttpResponse answer() { return response_.get_future().get(); }

 private:
  const HttpRequest request_;
  std::promise<HttpResponse> response_;
  std::atomic<bool> closed_ = false;
};

}  // namespace weft::server
