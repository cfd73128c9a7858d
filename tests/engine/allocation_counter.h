#pragma once
// The test program counts its allocations through operator new, on all threads. Not under sanitizers, which bring an
// operator new of their own.

namespace weft::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCountsAllocations = false;
#else
inline constexpr bool kCountsAllocations = true;
#endif

long n_allocations();

}  // namespace weft::test
