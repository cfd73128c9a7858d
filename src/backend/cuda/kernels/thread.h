#pragma once
// What kernels use of a GPU: for CUDA (nvcc), and for the emulation (any C++ compiler). Kernels are written
// against this alone, so that the same source runs in both. C++17, as older releases of nvcc know no later
// one.
//
// Sums and products are never contracted by the compiler (-fmad=false, -ffp-contract=off): where kernels want
// one rounding they say fmaf. So results have the same bits in both.
#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define WEFT_DEVICE __device__ __forceinline__
#define WEFT_CONSTANT __device__ constexpr
#define WEFT_KERNEL(n_threads) __global__ void __launch_bounds__(n_threads)
#define WEFT_SHARED __shared__
#define WEFT_UNROLL _Pragma("unroll")
#else
#include "backend/cuda/emulated/fibers.h"
#define WEFT_DEVICE inline
#define WEFT_CONSTANT constexpr
#define WEFT_KERNEL(n_threads) inline void
#define WEFT_SHARED static  // Blocks run one after another.
#define WEFT_UNROLL
#endif

namespace weft::cuda {

using uint = std::uint32_t;

struct Index3 {
  uint x, y, z;
};

#ifdef __CUDACC__
WEFT_DEVICE uint thread() { return threadIdx.x; }
WEFT_DEVICE Index3 block() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
WEFT_DEVICE void barrier() { __syncthreads(); }
WEFT_DEVICE uint add_shared(uint* to, uint n) { return atomicAdd(to, n); }
WEFT_DEVICE float as_float(uint bits) { return __uint_as_float(bits); }
WEFT_DEVICE uint as_uint(float x) { return __float_as_uint(x); }
WEFT_DEVICE uint bit_count(uint x) { return static_cast<uint>(__popc(x)); }
WEFT_DEVICE uint highest_bit(uint x) { return 31u - static_cast<uint>(__clz(static_cast<int>(x))); }
WEFT_DEVICE uint from_lane(uint value, uint lane) { return __shfl_sync(~0u, value, static_cast<int>(lane)); }
#else
inline uint thread() { return emulation::thread(); }
inline Index3 block() {
  const emulation::Index i = emulation::block();
  return {i.x, i.y, i.z};
}
inline void barrier() { emulation::barrier(); }
inline uint add_shared(uint* to, uint n) {
  const uint before = *to;
  *to += n;
  return before;
}
inline float as_float(uint bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline uint as_uint(float x) {
  uint bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline uint bit_count(uint x) { return static_cast<uint>(__builtin_popcount(x)); }
inline uint highest_bit(uint x) { return 31u - static_cast<uint>(__builtin_clz(x)); }
inline uint from_lane(uint value, uint lane) { return emulation::from_lane(value, lane); }
#endif

WEFT_DEVICE uint least(uint a, uint b) { return a < b ? a : b; }
WEFT_DEVICE uint most(uint a, uint b) { return a > b ? a : b; }
WEFT_DEVICE float infinity() { return as_float(0x7f800000u); }
WEFT_DEVICE float no_number() { return as_float(0x7fc00000u); }
WEFT_DEVICE bool is_nan(float x) { return (as_uint(x) & 0x7fffffffu) > 0x7f800000u; }
WEFT_DEVICE bool is_infinite(float x) { return (as_uint(x) & 0x7fffffffu) == 0x7f800000u; }
/// Of numbers.
WEFT_DEVICE float larger(float a, float b) { return a > b ? a : b; }
WEFT_DEVICE float smaller(float a, float b) { return a < b ? a : b; }

}  // namespace weft::cuda
