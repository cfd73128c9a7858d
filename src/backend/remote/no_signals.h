#pragma once
#include <pthread.h>

#include <csignal>

namespace weft::remote {

/// As long as it lives, the calling thread takes no signals of other processes, nor will those that it
/// starts: a thread that waits for them gets them. Signals of its own faults cannot wait.
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
