#pragma once
// weft serve: an HTTP server for models. Combines the HTTP server, the API and the models, and ends them in
// order.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/api.h"
#include "http/http_server.h"
#include "models/model_pool.h"

namespace weft::server {

struct ServerParams {
  HttpParams http = {};
  PoolParams pool = {};
  ApiSetup api = {};
  /// How long streams may continue after stop(); then they are cancelled.
  std::chrono::milliseconds shutdown_timeout{30000};
  /// How long the server still takes requests after stop(), while /ready reports that it leaves: for load
  /// balancers.
  std::chrono::milliseconds drain_delay{0};
};

class Server {
 public:
  /// Listens; requests wait until run(). Throws Error.
  explicit Server(ServerParams params);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::vector<std::string> addresses() const;
  std::vector<std::string> included_hosts() const;
  std::uint16_t port() const;
  const ModelPool& models() const;
  /// Loads the first model, which otherwise waits for the first request. `call` is called once from another
  /// thread, when it can be used or could not be loaded (the error's
  /// text). Before run().
  void on_ready(std::function<void(const std::string& error)> call);
  /// The access log's file may have been moved away. Any thread.
  bool reopen_log();
  /// Replaces all keys. Any thread.
  void set_keys(std::vector<ApiKey> keys);
  /// Serves until stop().
  void run();
  /// From any thread. Accepts no more connections. Requests in progress may end within the time limit, and
  /// are cancelled then. A second call cancels them at once.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::server
