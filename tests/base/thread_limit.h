#pragma once
// The test program makes its threads through this pthread_create, which can refuse some. Not
// under sanitizers, which have a pthread_create of their own.

namespace weft::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kLimitsThreads = false;
#else
inline constexpr bool kLimitsThreads = true;
#endif

/// During its lifetime the system has only n_more more threads for this process (EAGAIN).
class ThreadLimit {
 public:
  explicit ThreadLimit(int n_more);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
};

}  // namespace weft::test
