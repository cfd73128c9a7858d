#pragma once
// Background work that pays off only in longer runs. Its thread starts half a second later, so that it does
// not delay the first tokens of a short run. It has a lower priority than others; where they keep all cores
// busy it still gets a part of one.
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace weft::base {

class LateThread {
 public:
  LateThread() = default;
  /// `work` should end soon after the destructor requests a stop. An exception ends it. Where the system
  /// cannot start a thread, nothing is done.
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
