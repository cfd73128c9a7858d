#pragma once
// weft serve: models behind HTTP. Puts together the HTTP server, the API and the models, and ends them in
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
  /// How long streams may go on once the server is told to stop; then they are cancelled.
  std::chrono::milliseconds shutdown_timeout{30000};
  /// Goes on taking requests for so long, while /ready says no: for load balancers that look at it.
  std::chrono::milliseconds drain_delay{0};
};

class Server {
 public:
  /// Listens; requests wait until run(). Throws Error.
  explicit Server(ServerParams params);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const;
  std::uint16_t port() const;
  const ModelPool& models() const;
  /// Loads the first model, which otherwise waits for the first request. `call` is called once from another
  /// thread, when it can be used or could not be loaded (the error's
  /// text). Before run().
  void on_ready(std::function<void(const std::string& error)> call);
  /// The access log's file may have been moved away. Any thread.
  bool reopen_log();
  /// In place of those that there were. Any thread.
  void set_keys(std::vector<ApiKey> keys);
  /// Serves until stop().
  void run();
  /// From any thread: no more connections; requests that are under way end by themselves within the time
  /// limit, and are cancelled then. A second call cancels them at once.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::server
