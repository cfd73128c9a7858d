#include "engine/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> g_allocations{0};
thread_local long t_until_failure = 0;
std::atomic<long> g_bytes{0};
}  // namespace

namespace weft::test {
long n_allocations() { return g_allocations.load(); }
void fail_allocation(long n) { t_until_failure = n; }
long allocations_until_failure() { return t_until_failure; }
AllocationsSucceed::AllocationsSucceed() : until_failure_(t_until_failure) { t_until_failure = 0; }
AllocationsSucceed::~AllocationsSucceed() { t_until_failure = until_failure_; }
long n_allocated_bytes() { return g_bytes.load(); }
}  // namespace weft::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// GCC sees through one of the pair only.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (t_until_failure > 0 && --t_until_failure == 0) throw std::bad_alloc();
  g_bytes.fetch_add(static_cast<long>(size), std::memory_order_relaxed);
  if (void* p = std::malloc(size != 0 ? size : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif
