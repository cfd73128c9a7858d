#pragma once
// Tile products of bytes by AMX instructions, and the same in plain C++ where they are not compiled in. So
// machines without AMX can run the kernels that use them. Needs WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>
#if defined(__AMX_INT8__)
#include <immintrin.h>
#endif

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// Rows of activations in a tile, and of a panel.
inline constexpr int kTileSide = 16;

// sums[row][16] = rows of kBytes activations, `stride` bytes apart, times the codes of 16 rows of a panel.
// These are kBytes / 4 groups of 64 codes, in the order of a plane of bytes. They are unsigned, or signed if
// kSigned.
//
//   template <int kBytes, bool kSigned>
//   void multiply_tile(const std::byte* rows, std::ptrdiff_t stride, const std::byte* codes, std::int32_t*
//   sums)

#if defined(__AMX_INT8__)

/// While one of these lives, its thread's tiles have the shapes that multiply_tile wants.
class TileShapes {
 public:
  TileShapes() {
    struct Shapes {
      std::uint8_t palette, start_row, reserved[14];
      std::uint16_t row_bytes[16];
      std::uint8_t rows[16];
    };
    // Sums; activations and codes of 32 columns; the same of 16.
    alignas(64) static constexpr Shapes kShapes = {
        1, 0, {}, {64, 32, 64, 16, 64}, {kTileSide, kTileSide, 8, kTileSide, 4}};
    static_assert(sizeof(kShapes) == 64);
    _tile_loadconfig(&kShapes);
  }
  ~TileShapes() { _tile_release(); }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;
};

template <int kBytes, bool kSigned>
static inline __attribute__((always_inline)) void multiply_tile(const std::byte* rows, std::ptrdiff_t stride,
                                                                const std::byte* codes, std::int32_t* sums) {
  static_assert(kBytes == 32 || kBytes == 16);
  // The intrinsics do not say that they read and write memory.
  asm volatile("" ::: "memory");
  _tile_zero(0);
  if constexpr (kBytes == 32) {
    _tile_loadd(1, rows, stride);
    _tile_loadd(2, codes, 64);
    if constexpr (kSigned) _tile_dpbssd(0, 1, 2);
    if constexpr (!kSigned) _tile_dpbsud(0, 1, 2);
  } else {
    _tile_loadd(3, rows, stride);
    _tile_loadd(4, codes, 64);
    if constexpr (kSigned) _tile_dpbssd(0, 3, 4);
    if constexpr (!kSigned) _tile_dpbsud(0, 3, 4);
  }
  _tile_stored(0, sums, 64);
  asm volatile("" ::: "memory");
}

#else

class TileShapes {
 public:
  TileShapes() {}
};

template <int kBytes, bool kSigned>
static void multiply_tile(const std::byte* rows, std::ptrdiff_t stride, const std::byte* codes,
                          std::int32_t* sums) {
  for (int row = 0; row < kTileSide; ++row, rows += stride) {
    for (int r = 0; r < kTileSide; ++r) {
      std::int32_t sum = 0;
      for (int k = 0; k < kBytes; ++k) {
        const std::byte code = codes[64 * (k / 4) + 4 * r + k % 4];
        sum += static_cast<std::int8_t>(rows[k]) *
               (kSigned ? static_cast<std::int8_t>(code) : static_cast<std::uint8_t>(code));
      }
      sums[kTileSide * row + r] = sum;
    }
  }
}

#endif

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
