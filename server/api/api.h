#pragma once
// The table of routes. Checks keys, reads bodies and finds models. Exceptions of an endpoint become errors in
// its API's format.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "api/job.h"
#include "api/origins.h"
#include "api/response_store.h"
#include "api/sessions.h"
#include "files/files.h"
#include "models/model_pool.h"
#include "observe/access_log.h"
#include "observe/trace.h"
#include "workers.h"

namespace weft::server {

struct ApiKey {
  std::string key;
  std::string name;  ///< For logs, limits and saved sessions: letters, digits, '-' and '_'.
};

struct ApiSetup {
  ApiParams params = {};
  std::vector<ApiKey> keys = {};  ///< Each key opens all endpoints. Empty: no key is needed.
  OriginRules origins = {};
  /// Requests under way of one key (of one address if there are no keys), at most; 0: no limit.
  int n_requests_each = 0;
  /// Keys see each other's requests at /slots and /live and share saved sessions.
  bool share_slots = false;
  bool metrics = false;
  bool slots = true;  ///< Enables GET /slots.
  bool web_page = true;
  std::string version = {};  ///< The program's version, for /props.
  std::filesystem::path save_folder = {};
  StoreLimits stored = {};      ///< Responses of /v1/responses.
  FilesSetup files = {};        ///< Of /v1/files and /v1/batches.
  std::string access_log = {};  ///< A file, "-" for standard error, empty for none.
  Trace* trace = nullptr;       ///< May be null; must outlive the API.
  std::function<void(const std::string&)> warn = nullptr;  ///< For files that cannot be written. Any thread.
  int n_workers = 2;
};

/// Requests under way of each client, and their bound. Any number of threads.
class RequestCounts : public std::enable_shared_from_this<RequestCounts> {
 public:
  explicit RequestCounts(int most) : most_(most) {}
  /// Counts the exchange until its last reference is dropped. Null if the client has too many requests.
  std::shared_ptr<Exchange> add(const std::string& client, std::shared_ptr<Exchange> exchange);

 private:
  void remove(const std::string& client);

  const int most_;
  std::mutex mutex_;
  std::unordered_map<std::string, int> n_of_;
};

class LiveStream;

class Api {
 public:
  /// Throws Error kIo where a file or folder cannot be used.
  Api(ApiSetup setup, ModelPool& models);
  ~Api();

  /// Before the first request.
  void serve_on(HttpServer& http);
  /// HttpParams::body_sink: for uploads by clients that may upload.
  std::shared_ptr<BodySink> sink_for(const HttpRequest& head);
  /// The handler of the HTTP server.
  void handle(const std::shared_ptr<Exchange>& exchange);
  const OriginRules& origins() const { return setup_.origins; }
  /// As AccessLog::reopen; true without an access log. Any thread.
  bool reopen_log() { return access_log_ == nullptr || access_log_->reopen(); }
  /// Replaces all keys. Any thread.
  void set_keys(std::vector<ApiKey> keys);
  /// Logs a request that the HTTP server refused.
  void log_refused(const RefusedRequest& refused);
  /// From now on /ready and /health report that the server is shutting down, and batches rest.
  void leave();
  /// Ends all streams of /live, which have no end of their own. Any thread.
  void end_live();
  /// Waits for the workers: no request is submitted after that.
  void stop();

 private:
  struct Route;
  static const std::vector<Route>& routes();
  friend struct Route;

  Job make_job(std::shared_ptr<Exchange> exchange);
  void route_request(Job job);
  /// Serves a request of a batch for the key of this name, as route_request() does for a client.
  void serve_in_background(std::shared_ptr<Exchange> exchange, const std::string& key);
  void start(const Route& route, Job job);
  /// Runs `work` on a worker. The job fails if too much work waits.
  void work_on(Workers& workers, const Route& route, const std::shared_ptr<Job>& job,
               std::function<void()> work);
  void run(const Route& route, Job& job) noexcept;
  /// Once the job has its model: runs it on this worker, or on the workers for images and audio.
  void run_with_model(const Route& route, const std::shared_ptr<Job>& job);
  void with_model(const Route& route, std::shared_ptr<Job> job);
  /// Whether the route has sent a response without a model, or failed.
  bool responds_early(const Route& route, Job& job) noexcept;
  /// The name of the request's key, empty if the server has no keys. Nullopt for a wrong key.
  std::optional<std::string> key_of(const HttpRequest& request) const;
  /// Whether each key has slots and sessions of its own. So it remains when all keys but one are revoked.
  bool keeps_apart() const;
  void note_keys();
  void finish(const ServedRequest& request, const Outcome& outcome);
  /// Logs the ignored fields of a request, each name once.
  void tell_ignored(const Job& job);
  void fail(Job& job, ErrorShape shape, const ApiError& error, const HttpHeaders& headers = {}) noexcept;
  /// Sends a file of the page, if the request is for one. At "/" clients of Ollama get their line.
  bool serve_page(Job& job) const;

  // Endpoints for the state of server and models.
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
  void ollama_version(Job& job);
  void live(Job& job);

  ApiSetup setup_;
  ModelPool* models_;
  HttpServer* http_ = nullptr;
  Sessions sessions_;
  ResponseStore responses_;
  ApiParams background_params_;  ///< For requests of batches.
  std::unique_ptr<AccessLog> access_log_;
  std::shared_ptr<RequestCounts> counts_;
  std::mutex reported_mutex_;
  std::unordered_set<std::string> reported_;  ///< Names of ignored fields that were logged.
  mutable std::mutex keys_mutex_;
  bool keeps_apart_ = false;
  std::atomic<bool> leaving_{false};
  std::vector<std::weak_ptr<LiveStream>> live_;  ///< On the HTTP server's thread.
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<Workers> workers_;
  /// Parses large bodies, so that small requests do not wait for them.
  std::unique_ptr<Workers> large_workers_;
  /// For requests with images or audio: encoders take seconds, and other requests must not wait for them.
  std::unique_ptr<Workers> media_workers_;
  const std::shared_ptr<std::atomic<std::size_t>> form_bytes_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::unique_ptr<Workers> speech_workers_;  ///< For transcriptions, one after another.
  std::unique_ptr<Files> files_;             ///< Null: the server keeps no files.
};

}  // namespace weft::server
