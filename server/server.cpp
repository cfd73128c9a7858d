#include "server.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace weft::server {
namespace {

/// The time for the last bytes of responses after the services have ended.
constexpr std::chrono::milliseconds kLastBytes{2000};
constexpr std::chrono::milliseconds kLookAgain{10};
constexpr std::chrono::milliseconds kTrimPeriod{5000};

void release_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

HttpParams complete(HttpParams params, Api& api) {
  const OriginRules& origins = api.origins();
  params.error_body = [](int status, std::string_view reason) {
    return to_text(
        error_json({status, "invalid_request_error", "", "", std::string(reason)}, ErrorShape::kOpenAi));
  };
  params.headers.emplace_back("X-Content-Type-Options", "nosniff");
  if (origins.all) {  // Common headers are also sent with refusals of the parser.
    for (auto& header : cors_headers({}, origins)) params.headers.push_back(std::move(header));
  } else {
    params.headers_for = [origins](const HttpRequest& request) { return cors_headers(request, origins); };
  }
  params.body_sink = [&api](const HttpRequest& head) { return api.sink_for(head); };
  params.on_refused = [&api](const RefusedRequest& refused) { api.log_refused(refused); };
  return params;
}

}  // namespace

struct Server::Impl {
  explicit Impl(ServerParams params)
      : shutdown_timeout(params.shutdown_timeout),
        drain_delay(params.drain_delay),
        pool(std::move(params.pool)),
        api(std::move(params.api), pool),
        http(complete(std::move(params.http), api),
             [this](std::shared_ptr<Exchange> exchange) { api.handle(exchange); }) {
    api.serve_on(http);
    http.after(kTrimPeriod, [this] { trim(); });
  }

  // The allocator keeps freed memory. Returns it to the system after requests, at a moment without any.
  void trim() {
    const HttpCounts counts = http.counts();
    if (counts.n_busy == 0 && std::exchange(n_trimmed, counts.n_requests) != counts.n_requests)
      release_memory();
    http.after(kTrimPeriod, [this] { trim(); });
  }

  // On a thread of its own, so that HTTP continues.
  void shut_down() {
    api.leave();
    {
      std::unique_lock lock(mutex);
      hurry.wait_for(lock, drain_delay, [&] { return in_a_hurry; });
    }
    http.stop_accepting();
    pool.stop();
    // All services at the same time.
    std::vector<std::shared_ptr<ServedModel>> models;
    for (const ModelState& state : pool.states())
      if (state.model != nullptr) models.push_back(state.model);
    std::vector<std::thread> threads;
    std::atomic<std::size_t> n_left{models.size()};
    for (const auto& model : models)
      threads.emplace_back([&] {
        model->drain(shutdown_timeout);
        --n_left;
      });
    {
      std::unique_lock lock(mutex);
      const auto last = std::chrono::steady_clock::now() + shutdown_timeout;
      while (n_left > 0 && !in_a_hurry && std::chrono::steady_clock::now() < last)
        hurry.wait_for(lock, kLookAgain);
    }
    pool.end();
    for (const auto& model : models) model->shutdown();
    for (std::thread& thread : threads) thread.join();
    api.end_live();
    const auto deadline = std::chrono::steady_clock::now() + kLastBytes;
    while (http.counts().n_busy > 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(kLookAgain);
    http.stop();
  }

  const std::chrono::milliseconds shutdown_timeout;
  const std::chrono::milliseconds drain_delay;
  // In the order of their dependencies. The API's handlers end with the HTTP server's thread.
  ModelPool pool;
  Api api;
  HttpServer http;
  std::int64_t n_trimmed = 0;  ///< The number of requests when memory was last returned.

  std::mutex mutex;
  std::condition_variable hurry;
  bool in_a_hurry = false;
  std::thread stopping;
};

Server::Server(ServerParams params) : impl_(std::make_unique<Impl>(std::move(params))) {}

Server::~Server() {
  // Callers end first: the thread of stop(), the pool's, the workers.
  const auto join_stopping = [&] {
    std::unique_lock lock(impl_->mutex);
    if (!impl_->stopping.joinable()) return;
    lock.unlock();
    impl_->stopping.join();
  };
  join_stopping();
  impl_->pool.join();
  join_stopping();  // A load that has failed may have called stop().
  impl_->api.stop();
}

std::vector<std::string> Server::addresses() const { return impl_->http.addresses(); }
std::vector<std::string> Server::included_hosts() const { return impl_->http.included_hosts(); }
std::uint16_t Server::port() const { return impl_->http.port(); }
const ModelPool& Server::models() const { return impl_->pool; }

void Server::on_ready(std::function<void(const std::string& error)> call) {
  impl_->pool.get("",
                  [call = std::move(call)](const std::shared_ptr<ServedModel>&, std::exception_ptr error) {
                    call(error == nullptr ? std::string() : to_api_error(error).what());
                  });
}

void Server::set_keys(std::vector<ApiKey> keys) { impl_->api.set_keys(std::move(keys)); }

bool Server::reopen_log() { return impl_->api.reopen_log(); }

void Server::run() { impl_->http.run(); }

void Server::stop() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->stopping.joinable()) {
    impl_->in_a_hurry = true;
    impl_->hurry.notify_all();
    return;
  }
  impl_->stopping = std::thread([impl = impl_.get()] { impl->shut_down(); });
}

}  // namespace weft::server
