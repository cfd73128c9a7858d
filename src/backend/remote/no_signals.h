#pragma once
#include <pthread.h>

#include <csignal>

namespace weft::remote {

/// While it exists, the calling thread and threads that it starts block signals of other processes. A thread
/// that waits for them gets them. Signals of a thread's own faults are not blocked.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_ = {};
};

}  // namespace weft::remote
