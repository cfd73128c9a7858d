#pragma once
// Ctrl-C. While an InterruptGuard lives, the first Ctrl-C asks the running work to stop; the second ends the
// process at once, as it would without us.
#include "weft/context.h"

namespace weft::cli {

class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Ctrl-C also cancels what this context computes; the context must live until unwatch() or the guard's
  /// end.
  void watch(Context& context);
  void unwatch();
  bool requested() const;
  /// Arms the guard for the next Ctrl-C.
  void reset();
};

}  // namespace weft::cli
