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

  bool requested() const;
  /// Arms the guard for the next Ctrl-C.
  void reset();
};

/// While it lives, Ctrl-C also cancels what the context computes. There must be a guard, and no other one of
/// these. The context must outlive it.
class CancelOnInterrupt {
 public:
  explicit CancelOnInterrupt(Context& context);
  ~CancelOnInterrupt();
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;
};

}  // namespace weft::cli
