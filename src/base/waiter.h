#pragma once
// Waiting for another thread that is at work.
#include <sched.h>

namespace weft::base {

/// A moment in which the core leaves its means to who shares them.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A wait that gives the core away when it takes long: the one waited for may need it.
class Waiter {
 public:
  void operator()() {
    if (++n_ < kPausesBeforeYield) {
      pause_briefly();
    } else {
      n_ = 0;
      sched_yield();
    }
  }

 private:
  static constexpr int kPausesBeforeYield = 4000;
  int n_ = 0;
};

}  // namespace weft::base
