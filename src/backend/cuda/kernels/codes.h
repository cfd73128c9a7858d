#pragma once
// Activations as codes: a row has a code of eight bits for each column. After them it has for each 32 columns
// their scale, and a word with the sums of both halves' codes. Types with minima multiply these sums.
// vulkan/shaders/blocks.glsl has the same layout.
#include "backend/cuda/kernels/call.h"
#include "backend/cuda/kernels/math.h"
#include "backend/cuda/kernels/unpack.h"

namespace weft::cuda {

WEFT_CONSTANT uint kBlock = 32;
WEFT_DEVICE uint code_row_bytes(uint columns) { return (columns + columns / kBlock * 8u + 15u) / 16u * 16u; }

/// The scale and the sums of 32 columns.
struct alignas(8) BlockScale {
  float scale;
  uint sums;
  WEFT_DEVICE int low() const { return static_cast<std::int16_t>(sums & 0xffffu); }
  WEFT_DEVICE int high() const { return static_cast<std::int16_t>(sums >> 16); }
};

/// Codes of rows.
struct CodeRow {
  std::uint8_t* bytes;
  uint columns;
  WEFT_DEVICE uint* codes(uint block) const { return reinterpret_cast<uint*>(bytes + block * kBlock); }
  /// Of one half of a block.
  WEFT_DEVICE Words4 half(uint block, uint i) const {
    return reinterpret_cast<const Words4*>(bytes + block * kBlock)[i];
  }
  WEFT_DEVICE BlockScale* scales() const { return reinterpret_cast<BlockScale*>(bytes + columns); }
};
WEFT_DEVICE CodeRow code_row(const Call& c, uint tensor, uint row, uint columns) {
  return {c.at<std::uint8_t>(tensor, std::uint64_t{row} * code_row_bytes(columns)), columns};
}

/// Made by a thread for each block, so that the codes of a row depend on the row alone. value(i) is column i
/// of the block.
template <typename Value>
WEFT_DEVICE void store_codes(CodeRow row, uint block, Value value) {
  float v[kBlock], largest = 0.0f;
  WEFT_UNROLL
  for (uint i = 0; i < kBlock; ++i) {
    v[i] = value(i);
    largest = larger(fabsf(v[i]), largest);
  }
  const float scale = largest / 127.0f, to_code = largest > 0.0f ? 127.0f / largest : 0.0f;
  int sums[2] = {0, 0};
  WEFT_UNROLL
  for (uint word = 0; word < kBlock / 4u; ++word) {
    int codes[4];
    WEFT_UNROLL
    for (uint i = 0; i < 4u; ++i) {
      codes[i] = static_cast<int>(rintf(v[4u * word + i] * to_code));
      sums[word / 4u] += codes[i];
    }
    row.codes(block)[word] = pack_codes(codes[0], codes[1], codes[2], codes[3]);
  }
  row.scales()[block] = {scale, (static_cast<uint>(sums[0]) & 0xffffu) | static_cast<uint>(sums[1]) << 16};
}

/// Rows of floats, or their activations, to codes.
WEFT_KERNEL(64) quantise(Arguments arguments) {
  constexpr uint kActivate = 1, kGlu = 2;
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint op = c.constant(0), kind = c.constant(1), columns = c.param(0), blocks = columns / kBlock;
  for_each<64>(c, c.n_rows() * blocks, [&](uint i) {
    const float* const x = c.floats(0) + std::uint64_t{i} * kBlock;
    const float* const other = c.floats(2) + std::uint64_t{i} * kBlock;
    store_codes(code_row(c, 1, i / blocks, columns), i % blocks, [&](uint j) {
      float y = x[j];
      if (op >= kActivate) y = activate(kind, y);
      return op == kGlu ? y * other[j] : y;
    });
  });
}

}  // namespace weft::cuda
