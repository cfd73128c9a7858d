// What an instruction set does at best: dot products in registers, and a stream from memory. Nothing of a
// model is computed here; `weft bench` holds the kernels against it. Needs matmul_vec_<isa>.h and
// WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"

namespace weft::cpu::WEFT_CPU_ISA {

/// Each round: codes of 16 rows and 16 columns with as many vectors of activations as a tile of the kernels
/// has.
static constexpr int kDotPeakMultiplyAdds = panel::kTileColumns * 16 * 16;

static std::uint64_t dot_peak(std::int64_t n_rounds) {
  alignas(64) std::byte bytes[4][64];
  alignas(64) std::int8_t q[8 * 16 * panel::kTileColumns];
  for (int i = 0; i < 256; ++i) bytes[i / 64][i % 64] = static_cast<std::byte>(i & 15);
  // The second half takes back what the first has added, so that sums stay in their range.
  constexpr std::size_t kHalf = sizeof(q) / 2;
  for (std::size_t i = 0; i < kHalf; ++i) {
    q[i] = static_cast<std::int8_t>(static_cast<int>(i % 255) - 127);
    q[kHalf + i] = static_cast<std::int8_t>(-q[i]);
  }
  const panel::Codes codes[4] = {panel::load_codes(bytes[0]), panel::load_codes(bytes[1]),
                                 panel::load_codes(bytes[2]), panel::load_codes(bytes[3])};
  panel::Ints sums[panel::kTileColumns];
#pragma GCC unroll 8
  for (int c = 0; c < panel::kTileColumns; ++c) sums[c] = panel::zero_ints();
  for (std::int64_t round = 0; round < n_rounds; ++round) {
    // Other activations each time, or else a compiler could multiply once and add that again and again.
    const std::int8_t* const part = q + (round & 7) * 16 * panel::kTileColumns;
#pragma GCC unroll 8
    for (int c = 0; c < panel::kTileColumns; ++c) sums[c] = panel::dot<15>(sums[c], codes, part + 16 * c);
  }
  std::uint32_t lanes[16 * panel::kTileColumns];
  static_assert(sizeof(lanes) == sizeof(sums));
  __builtin_memcpy(lanes, sums, sizeof(sums));
  std::uint64_t sum = 0;
  for (const std::uint32_t lane : lanes) sum += lane;
  return sum;
}

/// Sums that do not wait for each other: more than two units that take four cycles each can have under way,
/// fewer than there are registers.
static constexpr int kFmaPeakSums = 12;
static constexpr int kFmaPeakMultiplyAdds = kFmaPeakSums * kLanes;

/// Sum i begins with i, as equal ones could be made once, and comes nearer to 2 by half each round.
static double fma_peak(std::int64_t n_rounds) {
  const F32 half = broadcast(0.5f), one = broadcast(1.0f);
  F32 sums[kFmaPeakSums];
#pragma GCC unroll 16
  for (int i = 0; i < kFmaPeakSums; ++i) sums[i] = broadcast(static_cast<float>(i));
  for (std::int64_t round = 0; round < n_rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kFmaPeakSums; ++i) sums[i] = fma(sums[i], half, one);
  }
  double sum = 0.0;
  for (const F32& part : sums) sum += static_cast<double>(reduce_add(part));
  return sum;
}

/// One line after another, each with three operations that depend on the line before: about the pace of the
/// fastest kernels. Loads at the core's full rate, with or without prefetches, were a tenth slower.
static std::uint64_t read_memory(const std::byte* data, std::int64_t n_bytes) {
  // One register each: g++ 12 keeps wider vectors in memory, and the sums would wait for memory.
  using Register = std::uint64_t __attribute__((vector_size(kLanes * sizeof(float))));
  constexpr int kParts = kReadUnit / static_cast<int>(sizeof(Register));
  Register sums[kParts] = {};
  for (std::int64_t at = 0; at < n_bytes; at += kReadUnit) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      Register part;
      __builtin_memcpy(&part, data + at + i * static_cast<int>(sizeof(Register)), sizeof(part));
      sums[i] ^= part;
      sums[i] += sums[i] << 1;
    }
  }
  std::uint64_t words[kReadUnit / sizeof(std::uint64_t)];
  __builtin_memcpy(words, sums, sizeof(words));
  std::uint64_t all = 0;
  for (const std::uint64_t word : words) all ^= word;
  return all;
}

}  // namespace weft::cpu::WEFT_CPU_ISA
