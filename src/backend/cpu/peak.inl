// What an instruction set does at best: dot products in registers, and a stream from memory. Nothing of a
// model is computed here; `weft bench` holds the kernels against it. Needs matmul_vec_<isa>.h and
// WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels.h"

namespace weft::cpu::WEFT_CPU_ISA {

/// Each round: codes of 16 rows and 16 columns with as many vectors of activations as a tile of the kernels
/// has.
static constexpr int kDotPeakMultiplyAdds = panel::kTileColumns * 16 * 16;

static std::uint64_t dot_peak(std::int64_t n_rounds) {
  alignas(64) std::byte bytes[4][64];
  alignas(64) std::int8_t q[8 * 16 * panel::kTileColumns];
  for (int i = 0; i < 256; ++i) bytes[i / 64][i % 64] = static_cast<std::byte>(i & 15);
  for (std::size_t i = 0; i < sizeof(q); ++i)
    q[i] = static_cast<std::int8_t>(static_cast<int>(i % 255) - 127);
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

static std::uint64_t read_memory(const std::byte* data, std::int64_t n_bytes) {
  using Line = std::uint64_t __attribute__((vector_size(64)));
  constexpr int kLines = kReadUnit / 64;
  Line sums[kLines] = {};
  for (std::int64_t at = 0; at < n_bytes; at += kReadUnit) {
#pragma GCC unroll 4
    for (int i = 0; i < kLines; ++i) {
      __builtin_prefetch(data + at + 64 * i + 4096, 0, 3);
      Line line;
      __builtin_memcpy(&line, data + at + 64 * i, sizeof(line));
      sums[i] ^= line;
    }
  }
  std::uint64_t sum = 0;
  for (int i = 0; i < kLines; ++i)
    for (int j = 0; j < 8; ++j) sum ^= sums[i][j];
  return sum;
}

}  // namespace weft::cpu::WEFT_CPU_ISA
