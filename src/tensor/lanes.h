#pragma once
// Vectors of sixteen floats for any processor: the compiler splits them into its registers. WEFT_CLONES
// compiles a function once for each kind of register, and the best version is chosen when the program starts.
// Functions of lanes pass them by reference, and are inlined. Inside this layer only.
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define WEFT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WEFT_CLONES
#endif
#define WEFT_INLINE [[gnu::always_inline]] inline

namespace weft::codec {

constexpr std::size_t kLanes = 16;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using IntLanes = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

WEFT_INLINE void load(Lanes& to, const float* from) { std::memcpy(&to, from, sizeof to); }

/// Rounds to integers (ties to even) within [low, high], which lie within +-2^22.
WEFT_INLINE void round_to(Lanes& x, float low, float high) {
  constexpr float kNoFraction = 0x1.8p23f;
  x = x > low ? x : Lanes{} + low;
  x = x < high ? x : Lanes{} + high;
  x = (x + kNoFraction) - kNoFraction;
}

/// Integers from 0 to 255.
WEFT_INLINE void store_bytes(std::uint8_t* to, const Lanes& x) {
  using Bytes = std::uint8_t __attribute__((vector_size(kLanes)));
  const Bytes bytes = __builtin_convertvector(__builtin_convertvector(x, IntLanes), Bytes);
  std::memcpy(to, &bytes, sizeof bytes);
}

WEFT_INLINE float sum(const Lanes& x) {
  float part[kLanes];
  std::memcpy(part, &x, sizeof x);
  for (std::size_t width = kLanes / 2; width > 0; width /= 2)
    for (std::size_t i = 0; i < width; ++i) part[i] += part[i + width];
  return part[0];
}

}  // namespace weft::codec
