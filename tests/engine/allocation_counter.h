#pragma once
// The test program counts its allocations through operator new, on all threads. Not under sanitizers, which
// bring an operator new of their own.

namespace weft::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCountsAllocations = false;
#else
inline constexpr bool kCountsAllocations = true;
#endif

long n_allocations();
long n_allocated_bytes();  ///< Sum of all allocations so far, including freed ones.

/// The n-th allocation from here on that this thread makes fails, and only that; 0: none. Sanitizers do not
/// have this.
void fail_allocation(long n);
long allocations_until_failure();  ///< 0: it has failed, or none is to fail.
/// Meanwhile none fails, nor counts.
class AllocationsSucceed {
 public:
  AllocationsSucceed();
  ~AllocationsSucceed();

 private:
  long until_failure_;
};

}  // namespace weft::test
