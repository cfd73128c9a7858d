#pragma once
#include <pthread.h>

#include <csignal>

namespace weft::remote {

/// As long as it lives, the calling thread takes no signals, nor will those that it starts: who waits for
/// them in a thread of its own gets them.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_ = {};
};

}  // namespace weft::remote
