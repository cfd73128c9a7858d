#pragma once
// What functions of a user's own throw in a step, from any thread, until the step's end.
#include <atomic>
#include <exception>
#include <string>
#include <utility>

namespace weft::cpu {

class StepFailure {
 public:
  bool happened() const { return happened_.load(std::memory_order_relaxed); }
  /// Any thread. The first one is kept; `place` outlives the step.
  void set(std::exception_ptr error, const std::string& place) noexcept {
    if (happened_.exchange(true, std::memory_order_relaxed)) return;
    error_ = std::move(error);
    place_ = &place;
  }
  /// Behind all tasks of a step: forgets what happened, and throws it as an Error that begins with the place.
  void rethrow();

 private:
  std::atomic<bool> happened_{false};
  std::exception_ptr error_;
  const std::string* place_ = nullptr;
};

}  // namespace weft::cpu
