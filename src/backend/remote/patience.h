#pragma once
// When the other end of a link is taken for dead.
#include <algorithm>
#include <chrono>
#include <utility>

namespace weft::remote {

/// How long an end that should speak may be silent.
struct Patience {
  std::chrono::milliseconds lost_after{10000};
  /// The leader asks each follower so often whether it lives.
  std::chrono::milliseconds ping_after() const {
    return std::clamp(lost_after / 8, std::chrono::milliseconds(20), std::chrono::milliseconds(1000));
  }
};

/// Adds up time without a message from the other end. Time in which the system suspended this process does
/// not count. A machine that slept, or a stopped job, simply continues.
class Silence {
 public:
  void broken() { look(), silent_ = {}; }
  /// Between looks no more is added than one of them should take.
  std::chrono::milliseconds so_far() {
    silent_ += std::min<Clock::duration>(look(), kLook);
    return std::chrono::duration_cast<std::chrono::milliseconds>(silent_);
  }

  /// The longest time in which this end did not listen itself.
  std::chrono::milliseconds longest_absence() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(absence_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLook{100};
  Clock::duration look() {
    const auto now = Clock::now();
    const auto since = now - std::exchange(last_look_, now);
    absence_ = std::max(absence_, since);
    return since;
  }

  Clock::time_point last_look_ = Clock::now();
  Clock::duration silent_{}, absence_{};
};

}  // namespace weft::remote
