#pragma once
// Work beside a program's own that is worth doing once the program has begun: in a thread that begins half a
// second later, so that a short run has its first tokens undisturbed, and that others go before. Where they
// keep all cores busy it still gets a part of one.
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace weft::base {

class LateThread {
 public:
  LateThread() = default;
  /// `work` should end soon once a stop is requested, which the destructor does. What it throws ends it.
  /// Where the system has no thread to spare, nothing is done.
  explicit LateThread(std::function<void(const std::stop_token&)> work);

  /// Blocks until all is done, without the delay.
  void wait();

 private:
  struct Start {
    std::mutex mutex;
    std::condition_variable_any changed;
    bool now = false;
  };
  std::shared_ptr<Start> start_;
  std::jthread thread_;
};

}  // namespace weft::base
