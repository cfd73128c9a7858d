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
/// Sixteen bytes at a multiple of that, which are one load or store.
struct alignas(16) Words4 {
  uint words[4];
};

#ifdef __CUDACC__
WEFT_DEVICE uint thread() { return threadIdx.x; }
WEFT_DEVICE Index3 block() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
WEFT_DEVICE void barrier() { __syncthreads(); }
/// Whether x is true for all threads of the block, which is the same for each of them.
WEFT_DEVICE bool all_of_block(bool x) { return __syncthreads_and(x ? 1 : 0) != 0; }
WEFT_DEVICE uint add_shared(uint* to, uint n) { return atomicAdd(to, n); }
WEFT_DEVICE float as_float(uint bits) { return __uint_as_float(bits); }
WEFT_DEVICE uint as_uint(float x) { return __float_as_uint(x); }
WEFT_DEVICE uint bit_count(uint x) { return static_cast<uint>(__popc(x)); }
WEFT_DEVICE uint highest_bit(uint x) { return 31u - static_cast<uint>(__clz(static_cast<int>(x))); }
/// Sum + the product of four signed bytes each.
WEFT_DEVICE int dot4(uint a, uint b, int sum) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
}
/// Products of matrices of signed bytes by a warp, exact: 16 x 16 times 16 x 8. Each lane l holds four
/// bytes of rows l / 4 (a0) and l / 4 + 8 (a1) of the first matrix, from byte 4 (l % 4) on. It holds the same
/// bytes of column l / 4 of the second matrix (b). It gets elements 2 (l % 4) and 2 (l % 4) + 1 of rows l / 4
/// (d[0], d[1]) and l / 4 + 8 (d[2], d[3]).
WEFT_DEVICE void multiply16(int (&d)[4], uint a0, uint a1, uint b) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(b), "r"(0));
}
/// The same of 16 x 32 times 32 x 8; a2, a3 and b1 are bytes that are 16 on.
WEFT_DEVICE void multiply32(int (&d)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(0));
}
#else
inline uint thread() { return emulation::thread(); }
inline Index3 block() {
  const emulation::Index i = emulation::block();
  return {i.x, i.y, i.z};
}
inline void barrier() { emulation::barrier(); }
inline bool all_of_block(bool x) { return x; }  // Nothing changes while a grid runs.
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
inline int dot4(uint a, uint b, int sum) {
  for (int i = 0; i < 32; i += 8) sum += static_cast<std::int8_t>(a >> i) * static_cast<std::int8_t>(b >> i);
  return sum;
}
inline void multiply32(int (&d)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  const emulation::LaneWords words =
      emulation::with_warp({{a0, a1, a2, a3, b0, b1}, {}}, [](emulation::LaneWords* lanes) {
        std::int8_t a[16][32], b[8][32];
        for (uint l = 0; l < 32; ++l)
          for (uint i = 0; i < 4; ++i)
            for (uint byte = 0; byte < 4; ++byte) {
              const uint k = 4 * (l % 4) + 16 * (i / 2) + byte;
              a[l / 4 + 8 * (i % 2)][k] = static_cast<std::int8_t>(lanes[l].in[i] >> (8 * byte));
              if (i % 2 == 0) b[l / 4][k] = static_cast<std::int8_t>(lanes[l].in[4 + i / 2] >> (8 * byte));
            }
        for (uint l = 0; l < 32; ++l)
          for (uint i = 0; i < 4; ++i) {
            int sum = 0;
            for (uint k = 0; k < 32; ++k) sum += a[l / 4 + 8 * (i / 2)][k] * b[2 * (l % 4) + i % 2][k];
            lanes[l].out[i] = static_cast<uint>(sum);
          }
      });
  for (int i = 0; i < 4; ++i) d[i] = static_cast<int>(words.out[i]);
}
inline void multiply16(int (&d)[4], uint a0, uint a1, uint b) { multiply32(d, a0, a1, 0, 0, b, 0); }
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
