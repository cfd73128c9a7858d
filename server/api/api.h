#pragma once
// Which path leads where. Keys are checked, bodies read and models found here; what an endpoint throws
// becomes the API's own error.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/job.h"
#include "api/sessions.h"
#include "models/model_pool.h"
#include "observe/access_log.h"
#include "observe/trace.h"
#include "workers.h"

namespace weft::server {

struct ApiSetup {
  ApiParams params = {};
  std::vector<std::string> keys = {};  ///< Any of them opens everything; none: everything is open.
  /// Pages of other origins may use the server from a browser.
  bool cors = false;
  /// It listens to this machine alone, so who calls it by another machine's name was misled (DNS rebinding).
  bool only_local = false;
  bool metrics = false;
  bool web_page = true;
  std::filesystem::path save_folder = {};
  std::string access_log = {};  ///< A file, "-" for standard error, empty for none.
  Trace* trace = nullptr;       ///< May be null; must outlive the API.
  int n_workers = 2;
};

class Api {
 public:
  /// Throws Error kIo where a file or folder cannot be used.
  Api(ApiSetup setup, ModelPool& models);
  ~Api();

  /// Before the first request.
  void serve_on(HttpServer& http) { http_ = &http; }
  /// The handler of the HTTP server.
  void handle(const std::shared_ptr<Exchange>& exchange);
  /// As AccessLog has it; true where there is none. Any thread.
  bool reopen_log() { return access_log_ == nullptr || access_log_->reopen(); }
  /// In place of those that there were. Any thread.
  void set_keys(std::vector<std::string> keys);
  /// From now on /ready and /health say that the server is leaving.
  void leave() { leaving_ = true; }
  /// Waits for the workers: nothing is submitted any more.
  void stop();

 private:
  struct Route;
  static const std::vector<Route>& routes();
  friend struct Route;

  void start(const Route& route, Job job);
  /// On a worker; the job fails where too much waits for them.
  void work_on(Workers& workers, const Route& route, const std::shared_ptr<Job>& job,
               std::function<void()> work);
  void run(const Route& route, Job& job) noexcept;
  /// On this worker, or on that of pictures and sounds, once the job has its model.
  void run_with_model(const Route& route, const std::shared_ptr<Job>& job);
  void with_model(const Route& route, std::shared_ptr<Job> job);
  bool is_open_to(const HttpRequest& request) const;
  bool is_from_elsewhere(const HttpRequest& request) const;
  void finish(const Job& job, const Outcome& outcome);
  void fail(Job& job, ErrorShape shape, const ApiError& error, const HttpHeaders& headers = {}) noexcept;
  bool serve_page(const std::shared_ptr<Exchange>& exchange) const;

  // Endpoints that tell how things stand.
  void health(Job& job);
  void ready(Job& job);
  Json models_json() const;
  void list_models(Job& job);
  void show_model(Job& job);
  void props(Job& job);
  void list_adapters(Job& job);
  void slots(Job& job);
  void act_on_slot(Job& job);
  void metrics(Job& job);
  void live(Job& job);

  ApiSetup setup_;
  ModelPool* models_;
  HttpServer* http_ = nullptr;
  Sessions sessions_;
  std::unique_ptr<AccessLog> access_log_;
  mutable std::mutex keys_mutex_;
  std::atomic<bool> leaving_{false};
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<Workers> workers_;
  /// Of requests with pictures or sounds: encoders take seconds, and texts are not to wait behind them.
  std::unique_ptr<Workers> media_workers_;
};

}  // namespace weft::server
