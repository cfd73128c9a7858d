#pragma once
// A server on a thread of its own, on any free port of 127.0.0.1.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "http/http_server.h"

namespace weft::server {

class RunningServer {
 public:
  explicit RunningServer(HttpServer::Handler handler, HttpParams params = {})
      : server_(on_free_port(std::move(params)), std::move(handler)), thread_([this] { server_.run(); }) {}
  ~RunningServer() { stop(); }

  HttpServer& operator*() { return server_; }
  HttpServer* operator->() { return &server_; }
  std::uint16_t port() const { return server_.port(); }
  void stop() {
    if (!thread_.joinable()) return;
    server_.stop();
    thread_.join();
  }

 private:
  static HttpParams on_free_port(HttpParams params) {
    if (params.host.find('/') == std::string::npos) params.port = 0;
    return params;
  }

  HttpServer server_;
  std::thread thread_;
};

/// Waits until `holds` is true; false after a time that only a broken server needs.
inline bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 30000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

}  // namespace weft::server
