#include "workers.h"

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <utility>

namespace weft::server {

struct Workers::Impl {
  Impl(int n_threads, std::size_t n_waiting_max_in)
      : n_waiting_max(n_waiting_max_in), pool(static_cast<std::size_t>(n_threads)) {}

  const std::size_t n_waiting_max;
  std::atomic<std::size_t> n_waiting{0};
  boost::asio::thread_pool pool;
};

Workers::Workers(int n_threads, std::size_t n_waiting_max)
    : impl_(std::make_unique<Impl>(n_threads, n_waiting_max)) {}

Workers::~Workers() { stop(); }

void Workers::stop() {
  impl_->n_waiting = impl_->n_waiting_max;
  impl_->pool.stop();
  impl_->pool.join();
}

bool Workers::run(std::function<void()> work) {
  if (impl_->n_waiting.fetch_add(1) >= impl_->n_waiting_max) {
    impl_->n_waiting.fetch_sub(1);
    return false;
  }
  boost::asio::post(impl_->pool, [impl = impl_.get(), work = std::move(work)] {
    impl->n_waiting.fetch_sub(1);
    try {
      work();
    } catch (...) {  // No memory even for an error: the exchange says 500 when it is let go.
    }
  });
  return true;
}

}  // namespace weft::server
