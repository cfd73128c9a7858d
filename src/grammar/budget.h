#pragma once
// Limits the cost of building one grammar.
#include <cstdint>
#include <string>

#include "weft/error.h"
#include "weft/grammar.h"

namespace weft::grammar {

[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// The cost of an exception that is caught: an alternative that cannot hold.
inline constexpr std::int64_t kExceptionWork = 64;

/// A limit was exceeded. The source may be valid.
class OverBudget : public Error {
 public:
  explicit OverBudget(const std::string& message) : Error(ErrorCode::kInvalidArgument, message) {}
};

/// Used by one thread. Its members throw OverBudget where a limit is exceeded.
class Budget {
 public:
  explicit Budget(const GrammarLimits& limits) : limits_(limits) {}

  const GrammarLimits& limits() const { return limits_; }
  std::int64_t work() const { return work_; }

  void spend(std::int64_t work = 1) {
    if ((work_ += work) > limits_.work)
      throw OverBudget("the grammar takes more than " + std::to_string(limits_.work) +
                       " steps: use fewer alternatives, smaller repetitions or shorter patterns");
  }

  void add_states(std::int64_t n) {
    spend(n);
    if ((states_ += n) > limits_.states)
      throw OverBudget("the grammar has more than " + std::to_string(limits_.states) +
                       " states, repetitions written out: use smaller repetitions or fewer alternatives");
  }

 private:
  GrammarLimits limits_;
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
