#pragma once
// What an instruction set does at best with pairs of bfloat16; see peak.inl. Needs vec_<isa>.h and
// WEFT_CPU_ISA.
#include <cstdint>

#include "backend/cpu/kernels/pairs.inl"

namespace weft::cpu::WEFT_CPU_ISA {

/// As kFmaPeakSums.
static constexpr int kPairPeakSums = 12;
static constexpr int kPairPeakMultiplyAdds = kPairPeakSums * 2 * kLanes;

/// Sum i begins with i, and each round adds 0.5 and 0.25 to it.
static double pair_peak(std::int64_t n_rounds) {
  constexpr std::uint16_t kHalfAndQuarter[2] = {0x3f00, 0x3e80}, kOnes[2] = {0x3f80, 0x3f80};
  const Pairs parts = broadcast_pair(kHalfAndQuarter), ones = broadcast_pair(kOnes);
  F32 sums[kPairPeakSums];
#pragma GCC unroll 16
  for (int i = 0; i < kPairPeakSums; ++i) sums[i] = broadcast(static_cast<float>(i));
  for (std::int64_t round = 0; round < n_rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kPairPeakSums; ++i) sums[i] = add_products(parts, ones, sums[i]);
  }
  double sum = 0.0;
  for (const F32& part : sums) sum += static_cast<double>(reduce_add(part));
  return sum;
}

}  // namespace weft::cpu::WEFT_CPU_ISA
