#include "base/late_thread.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

namespace weft::base {
namespace {

constexpr auto kDelay = std::chrono::milliseconds(500);
// Gets about a quarter of a busy core. At the lowest priority, weights of a decoding model were still on
// small pages after ten seconds.
constexpr int kNice = 5;

}  // namespace

LateThread::LateThread(std::function<void(const std::stop_token&)> work) : start_(std::make_shared<Start>()) {
  try {
    thread_ = std::jthread([start = start_, work = std::move(work)](const std::stop_token& stop) {
      {
        std::unique_lock lock(start->mutex);
        start->changed.wait_for(lock, stop, kDelay, [&] { return start->now; });
      }
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
      try {
        work(stop);
      } catch (const std::exception&) {  // What was done is done.
      }
    });
  } catch (const std::system_error&) {
  }
}

void LateThread::wait() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(start_->mutex);
    start_->now = true;
  }
  start_->changed.notify_all();
  thread_.join();
}

}  // namespace weft::base
