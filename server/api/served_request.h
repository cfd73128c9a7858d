#pragma once
// A request on its way through the server: its client, its model, and the threads that serve it.
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/error.h"
#include "http/http_server.h"
#include "models/served_model.h"
#include "workers.h"

namespace weft::server {

/// The result of a request, for logs and traces.
struct Outcome {
  int status = 200;
  std::string error = {};
  std::vector<CompletionStats> completions = {};
};

/// The error of a grammar that failed within a completion. Any thread.
class GrammarFault {
 public:
  void set(const ApiError& error) {
    const std::lock_guard lock(mutex_);
    error_ = error;
  }
  std::optional<ApiError> get() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<ApiError> error_;
};

/// The handler of a request and its generation have a copy each: handlers run on workers and end first,
/// generations run on the HTTP server's thread.
struct ServedRequest {
  std::shared_ptr<Exchange> exchange = nullptr;
  std::string id = {};      ///< Sent to the client as X-Request-Id.
  std::string key = {};     ///< The name of the client's key; empty where there are none.
  std::string client = {};  ///< The client for limits: the key, or else the address.
  std::chrono::steady_clock::time_point start = {};
  std::shared_ptr<ServedModel> model = nullptr;
  HttpServer* http = nullptr;
  Workers* workers = nullptr;
  std::shared_ptr<GrammarFault> grammar_fault = nullptr;  ///< The request's grammar or bans set it.
  std::function<void(const Outcome&)> done = nullptr;     ///< On the HTTP server's thread, once.
};

}  // namespace weft::server
