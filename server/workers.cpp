#include "workers.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::server {

using Work = std::function<void()>;

struct Workers::Impl {
  explicit Impl(std::size_t n_waiting_max_in) : n_waiting_max(n_waiting_max_in) {}

  // With the lock: the oldest work of the client whose turn it is.
  Work take() {
    std::string client = std::move(turns.front());
    turns.pop_front();
    std::deque<Work>& queue = queues[client];
    Work work = std::move(queue.front());
    queue.pop_front();
    --n_waiting;
    if (queue.empty()) {
      queues.erase(client);
    } else {
      turns.push_back(std::move(client));
    }
    return work;
  }

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || n_waiting > 0; });
      if (stopping) return;
      Work work = take();
      lock.unlock();
      try {
        work();
      } catch (...) {  // No memory even for an error: the exchange responds with 500 when it is dropped.
      }
      work = nullptr;
      lock.lock();
    }
  }

  const std::size_t n_waiting_max;
  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<std::string, std::deque<Work>> queues;  ///< None is empty.
  std::deque<std::string> turns;                             ///< The clients of these.
  std::size_t n_waiting = 0;
  bool stopping = false;
  std::vector<std::thread> threads;
};

Workers::Workers(int n_threads, std::size_t n_waiting_max) : impl_(std::make_unique<Impl>(n_waiting_max)) {
  try {
    for (int i = 0; i < n_threads; ++i) impl_->threads.emplace_back([impl = impl_.get()] { impl->serve(); });
  } catch (...) {  // The system has no more threads.
    stop();
    throw;
  }
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  {
    std::unordered_map<std::string, std::deque<Work>> dropped;  // Freed without the lock.
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    dropped.swap(impl_->queues);
  }
  impl_->changed.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
}

bool Workers::run(const std::string& client, Work work) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopping || impl_->n_waiting >= impl_->n_waiting_max) return false;
    std::deque<Work>& queue = impl_->queues[client];
    if (queue.empty()) impl_->turns.push_back(client);
    queue.push_back(std::move(work));
    ++impl_->n_waiting;
  }
  impl_->changed.notify_one();
  return true;
}

}  // namespace weft::server
