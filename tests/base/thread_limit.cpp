#include "base/thread_limit.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>

namespace weft::test {
namespace {

constexpr int kNoLimit = std::numeric_limits<int>::max();
std::atomic<int> g_n_left{kNoLimit};

}  // namespace

ThreadLimit::ThreadLimit(int n_more) { g_n_left = n_more; }
ThreadLimit::~ThreadLimit() { g_n_left = kNoLimit; }

}  // namespace weft::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                             const pthread_attr_t* attributes,
                                                             void* (*run)(void*), void* argument) noexcept {
  using weft::test::g_n_left;
  static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (g_n_left.load() != weft::test::kNoLimit && g_n_left.fetch_sub(1) <= 0) return EAGAIN;
  return create(thread, attributes, run, argument);
}
#endif
