#pragma once
// What making one grammar may cost, counted while it is made.
#include <time.h>

#include <cstdint>
#include <string>

#include "weft/error.h"
#include "weft/grammar.h"

namespace weft::grammar {

[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// The processor's time of this thread: what others do on the machine does not count.
inline double thread_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

/// Used by one thread. Its members throw Error kInvalidArgument where a limit is exceeded.
class Budget {
 public:
  explicit Budget(const GrammarLimits& limits)
      : limits_(limits), deadline_ms_(thread_ms() + limits.compile_ms) {}

  const GrammarLimits& limits() const { return limits_; }

  /// A unit of work. The clock is looked at now and then.
  void spend(std::int64_t work = 1) {
    if ((work_ += work) < kWorkPerLook) return;
    work_ = 0;
    if (thread_ms() > deadline_ms_)
      refuse("the grammar takes longer than " + std::to_string(static_cast<int>(limits_.compile_ms)) +
             " ms to compile: use fewer alternatives, smaller repetitions or shorter patterns");
  }

  void add_states(std::int64_t n) {
    spend(n);
    if ((states_ += n) > limits_.states)
      refuse("the grammar has more than " + std::to_string(limits_.states) +
             " states, repetitions written out: use smaller repetitions or fewer alternatives");
  }

 private:
  static constexpr std::int64_t kWorkPerLook = 4096;
  GrammarLimits limits_;
  double deadline_ms_;
  std::int64_t work_ = 0;
  std::int64_t states_ = 0;
};

/// Throws where a source is longer than allowed. `what` names it.
inline void check_source(std::string_view source, const GrammarLimits& limits, const std::string& what) {
  if (source.size() > limits.source_bytes)
    refuse(what + " has " + std::to_string(source.size()) + " bytes, at most " +
           std::to_string(limits.source_bytes) + " are read");
}

}  // namespace weft::grammar
