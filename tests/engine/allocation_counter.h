#pragma once
// The test program counts its allocations through operator new, on all threads.

namespace weft::test {

long n_allocations();

}  // namespace weft::test
