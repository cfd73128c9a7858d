#pragma once
// A handler that keeps its exchanges, so that a test can respond at any time from any thread.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "http/http_server.h"

namespace weft::server {

class HeldExchanges {
 public:
  HttpServer::Handler handler() {
    return [this](std::shared_ptr<Exchange> exchange) {
      {
        const std::lock_guard lock(mutex_);
        exchanges_.push_back(std::move(exchange));
      }
      came_.notify_all();
    };
  }
  /// Waits for the oldest exchange. The caller then has its only reference.
  std::shared_ptr<Exchange> take() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return !exchanges_.empty(); });
    auto exchange = std::move(exchanges_.front());
    exchanges_.erase(exchanges_.begin());
    return exchange;
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return exchanges_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
};

}  // namespace weft::server
