#include "server.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace weft::server {
namespace {

/// What remains of answers when the services have ended: their last bytes.
constexpr std::chrono::milliseconds kLastBytes{2000};
constexpr std::chrono::milliseconds kLookAgain{10};

HttpParams complete(HttpParams params, bool cors) {
  params.error_body = [](int status, std::string_view reason) {
    return to_text(
        error_json({status, "invalid_request_error", "", "", std::string(reason)}, ErrorShape::kOpenAi));
  };
  if (cors) {
    params.headers.emplace_back("Access-Control-Allow-Origin", "*");
    params.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  }
  params.headers.emplace_back("X-Content-Type-Options", "nosniff");
  return params;
}

}  // namespace

struct Server::Impl {
  explicit Impl(ServerParams params)
      : shutdown_timeout(params.shutdown_timeout),
        drain_delay(params.drain_delay),
        pool(std::move(params.pool)),
        cors(params.api.cors),
        api(std::move(params.api), pool),
        http(complete(std::move(params.http), cors),
             [this](std::shared_ptr<Exchange> exchange) { api.handle(exchange); }) {
    api.serve_on(http);
  }

  // On a thread of its own: HTTP goes on meanwhile.
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
    const auto deadline = std::chrono::steady_clock::now() + kLastBytes;
    while (http.counts().n_busy > 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(kLookAgain);
    http.stop();
  }

  const std::chrono::milliseconds shutdown_timeout;
  const std::chrono::milliseconds drain_delay;
  // In the order in which they need each other. The API's handlers end with the HTTP server's thread.
  ModelPool pool;
  const bool cors;
  Api api;
  HttpServer http;

  std::mutex mutex;
  std::condition_variable hurry;
  bool in_a_hurry = false;
  std::thread stopping;
};

Server::Server(ServerParams params) : impl_(std::make_unique<Impl>(std::move(params))) {}

Server::~Server() {
  // First those who call others: the thread of stop(), the pool's, the workers.
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

std::string Server::address() const { return impl_->http.address(); }
std::uint16_t Server::port() const { return impl_->http.port(); }
const ModelPool& Server::models() const { return impl_->pool; }

void Server::on_ready(std::function<void(const std::string& error)> call) {
  impl_->pool.get("",
                  [call = std::move(call)](const std::shared_ptr<ServedModel>&, std::exception_ptr error) {
                    call(error == nullptr ? std::string() : to_api_error(error).what());
                  });
}

void Server::set_keys(std::vector<std::string> keys) { impl_->api.set_keys(std::move(keys)); }

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
