#pragma once
// The byte layout of packed panels and of quantised rows of activations, shared by packing (packed.cpp) and
// multiplying (matmul.inl).
//
// A panel is 16 rows; its columns are cut into blocks of 32, and a block is one record
//
//   [base plane][extra plane][scales]
//
// A type whose scales have two levels is cut into super-blocks of 256 columns, whose scales come first:
//
//   [f16 factors][scales of all blocks] [base plane][extra plane] [base plane][extra plane] ...
//
// (of 128 columns, where the type's own blocks have no more).
//
// In a plane, the codes of four neighbouring columns of a row are contiguous, and the rows follow one
// another. A unit of 64 bytes is 16 rows x 4 columns, the operand of one dot-product instruction. For the
// column c of a block write j = c / 4, t = c % 4:
//
//   kBytes    512 B   byte (j * 16 + row) * 4 + t is the code.
//   kNibbles  256 B   byte ((j % 4) * 16 + row) * 4 + t: columns 0..15 in low nibbles, 16..31 in high
//   kPairs    128 B   byte ((j / 4) * 16 + row) * 4 + t: two bits at 2 (j % 4).
//   kBits      64 B   byte row * 4 + t: one bit at j.
//
// In kSuperMin, scales and mins have six bits. mins[g] has a byte for each min of the blocks 4g .. 4g + 3.
// Its upper bits are two bits of a scale, whose other four are a nibble of `low`, the low one for g = 0:
//
//   the scale of block i    byte i % 4 * 16 + row
//   the min of block i      byte row * 4 + (0, 2, 1, 3)[i % 4]: the even bytes of a row are the mins of two
//                           blocks side by side, as 16-bit products of pairs take them, and so are the odd
//                           ones
//
// In a layout with odd scales, a scale is 2 s + 1, and s a nibble. Scale i of a super-block (with two for
// each block, i = 2 block + half) is in byte (i / 8 * 4 + i % 4) * 16 + row, low where i % 8 < 4.
//
// A code is base | extra << bits(base), unsigned. A value is unit * scale * (code - zero) + min. For a type
// with a table it is unit * scale * (table[code] - zero). Float types have no planes: a record is [32
// columns][16 rows] of their elements.
//
// In a tall matrix, the records have a code's high bits. Two low planes of pairs, middle bits and lowest,
// follow all panels:
//
//   [panel 0][panel 1] ... [middle pairs of panel 0][of panel 1] ... [lowest pairs of panel 0][of panel 1]
//   ...
#include <cstddef>
#include <cstdint>

#include "backend/cpu/layout/packed.h"

namespace weft::cpu {

enum class Plane : std::uint8_t { kNone, kBits, kPairs, kNibbles, kBytes };

/// [16] is one number for each row of the panel. Those from kSuper on are of super-blocks.
enum class ScaleKind : std::uint8_t {
  kNone,        ///< A float type.
  kHalf,        ///< f16 scale[16]
  kHalfMin,     ///< f16 scale[16], f16 min[16]
  kExponent,    ///< u8 e[16], the scale is 2^(e - 128)
  kSuper,       ///< f16 d[16];               i8 scale[8][16]
  kSuperMin,    ///< f16 d[16], f16 -dmin[16]; u8 low[64], u8 mins[2][64]: see above
  kSuper16,     ///< f16 d[16];               i8 scale[16][16], for 16 columns each
  kSuper16Min,  ///< f16 d[16], f16 -dmin[16]; u8 (scale | min << 4)[16][16]
  kSuperFlat,   ///< f16 d[16], the scale of all blocks
  kSuperE4M3,   ///< u8 scale[8][16], floats of 4 + 3 bits times 2^-8, for 16 columns each
};

/// The values of codes, above 0 so that bytes can be unsigned.
struct CodeTable {
  std::uint8_t of[16];
};

struct PanelLayout {
  DType dtype = DType::kF32;
  Plane base = Plane::kNone;
  Plane extra = Plane::kNone;
  ScaleKind scales = ScaleKind::kNone;
  int zero = 0;           ///< Code (or table entry) of the value 0, without min.
  float unit = 1.0f;      ///< For kSuper, kSuper16 and kSuperE4M3: the unit of scales.
  bool odd = false;       ///< Of kSuper and kSuper16: with odd scales.
  int super_blocks = 8;   ///< Blocks of a super-block, where there are any.
  bool tall = false;      ///< With low planes.
  CodeTable table = {};   ///< Of a type with four-bit indices; all zero: no table.
  int element_bytes = 0;  ///< Of a float type.
};

// Tables of several types: the formats' values, + 128 or + 16. For the IQ types, codes are levels of the grid
// with the sign, or the direction of the shift, above them.
inline constexpr CodeTable kIQ4Table = {
    {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}};
inline constexpr CodeTable kFP4Table = {{16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4}};
inline constexpr CodeTable kIQ1Table = {{9, 17, 25, 16, 7, 15, 23, 16}};
inline constexpr CodeTable kIQ2Table = {{136, 153, 171, 128, 120, 103, 85, 128}};

/// The table of all packable types.
inline constexpr PanelLayout kPanelLayouts[] = {
    {.dtype = DType::kF32, .element_bytes = 4},
    {.dtype = DType::kF16, .element_bytes = 2},
    {.dtype = DType::kBF16, .element_bytes = 2},
    {.dtype = DType::kQ4_0, .base = Plane::kNibbles, .scales = ScaleKind::kHalf, .zero = 8},
    {.dtype = DType::kQ4_1, .base = Plane::kNibbles, .scales = ScaleKind::kHalfMin},
    {.dtype = DType::kQ5_0,
     .base = Plane::kNibbles,
     .extra = Plane::kBits,
     .scales = ScaleKind::kHalf,
     .zero = 16},
    {.dtype = DType::kQ5_1, .base = Plane::kNibbles, .extra = Plane::kBits, .scales = ScaleKind::kHalfMin},
    {.dtype = DType::kQ8_0, .base = Plane::kBytes, .scales = ScaleKind::kHalf, .zero = 128},
    {.dtype = DType::kQ8_0, .base = Plane::kNibbles, .scales = ScaleKind::kHalf, .zero = 128, .tall = true},
    {.dtype = DType::kQ2_K, .base = Plane::kPairs, .scales = ScaleKind::kSuper16Min},
    {.dtype = DType::kQ3_K,
     .base = Plane::kPairs,
     .extra = Plane::kBits,
     .scales = ScaleKind::kSuper16,
     .zero = 4},
    {.dtype = DType::kQ4_K, .base = Plane::kNibbles, .scales = ScaleKind::kSuperMin},
    {.dtype = DType::kQ5_K, .base = Plane::kNibbles, .extra = Plane::kBits, .scales = ScaleKind::kSuperMin},
    {.dtype = DType::kQ6_K,
     .base = Plane::kNibbles,
     .extra = Plane::kPairs,
     .scales = ScaleKind::kSuper16,
     .zero = 32},
    {.dtype = DType::kIQ4_NL,
     .base = Plane::kNibbles,
     .scales = ScaleKind::kHalf,
     .zero = 128,
     .table = kIQ4Table},
    {.dtype = DType::kIQ4_XS,
     .base = Plane::kNibbles,
     .scales = ScaleKind::kSuper,
     .zero = 128,
     .table = kIQ4Table},
    {.dtype = DType::kMXFP4,
     .base = Plane::kNibbles,
     .scales = ScaleKind::kExponent,
     .zero = 16,
     .table = kFP4Table},
    {.dtype = DType::kNVFP4,
     .base = Plane::kNibbles,
     .scales = ScaleKind::kSuperE4M3,
     .zero = 16,
     .unit = 128.0f,
     .super_blocks = 4,
     .table = kFP4Table},
    {.dtype = DType::kQ1_0,
     .base = Plane::kBits,
     .scales = ScaleKind::kSuperFlat,
     .zero = 16,
     .super_blocks = 4,
     .table = {{15, 17}}},
    {.dtype = DType::kTQ1_0, .base = Plane::kPairs, .scales = ScaleKind::kSuperFlat, .zero = 1},
    {.dtype = DType::kTQ2_0, .base = Plane::kPairs, .scales = ScaleKind::kSuperFlat, .zero = 1},
    {.dtype = DType::kIQ1_S,
     .base = Plane::kPairs,
     .extra = Plane::kBits,
     .scales = ScaleKind::kSuper,
     .zero = 16,
     .unit = 0.125f,
     .odd = true,
     .table = kIQ1Table},
    {.dtype = DType::kIQ1_M,
     .base = Plane::kPairs,
     .extra = Plane::kBits,
     .scales = ScaleKind::kSuper16,
     .zero = 16,
     .unit = 0.125f,
     .odd = true,
     .table = kIQ1Table},
    {.dtype = DType::kIQ2_XXS,
     .base = Plane::kPairs,
     .extra = Plane::kBits,
     .scales = ScaleKind::kSuper,
     .zero = 128,
     .unit = 0.125f,
     .odd = true,
     .table = kIQ2Table},
    {.dtype = DType::kIQ2_XS,
     .base = Plane::kPairs,
     .extra = Plane::kBits,
     .scales = ScaleKind::kSuper16,
     .zero = 128,
     .unit = 0.125f,
     .odd = true,
     .table = kIQ2Table},
    {.dtype = DType::kIQ2_S,
     .base = Plane::kPairs,
     .extra = Plane::kBits,
     .scales = ScaleKind::kSuper16,
     .zero = 128,
     .unit = 0.125f,
     .odd = true,
     .table = kIQ2Table},
    {.dtype = DType::kIQ3_XXS,
     .base = Plane::kNibbles,
     .scales = ScaleKind::kSuper,
     .zero = 32,
     .unit = 0.5f,
     .odd = true,
     .table = {{34, 38, 42, 46, 50, 54, 58, 63, 30, 26, 22, 18, 14, 10, 6, 1}}},
    {.dtype = DType::kIQ3_S,
     .base = Plane::kNibbles,
     .scales = ScaleKind::kSuper,
     .zero = 16,
     .odd = true,
     .table = {{17, 19, 21, 23, 25, 27, 29, 31, 15, 13, 11, 9, 7, 5, 3, 1}}},
};
inline constexpr int kNumPanelLayouts = sizeof(kPanelLayouts) / sizeof(kPanelLayouts[0]);

// In files compiled for one instruction set these serve in constant expressions only, which leaves no code
// behind.
constexpr int plane_bytes(Plane plane) {
  constexpr int bytes[] = {0, 64, 128, 256, 512};
  return bytes[static_cast<int>(plane)];
}
constexpr int plane_bits(Plane plane) {
  constexpr int bits[] = {0, 1, 2, 4, 8};
  return bits[static_cast<int>(plane)];
}
/// Of a super-block.
constexpr int factor_bytes(ScaleKind kind) {
  constexpr int bytes[] = {0, 0, 0, 0, 32, 64, 32, 64, 32, 0};
  return bytes[static_cast<int>(kind)];
}
constexpr bool has_super_blocks(ScaleKind kind) { return kind >= ScaleKind::kSuper; }
/// Of a block of 32 columns.
constexpr int scale_bytes(const PanelLayout& layout) {
  constexpr int bytes[] = {0, 32, 64, 16, 16, 24, 32, 32, 0, 32};
  return bytes[static_cast<int>(layout.scales)] / (layout.odd ? 2 : 1);
}
inline constexpr int kSuperBlocks = 8;  ///< At most.
/// Where kSuperMin has a block's scale and its min.
constexpr int six_bit_scale(int row, int block) { return block % 4 * 16 + row; }
constexpr int six_bit_min(int row, int block) { return row * 4 + block % 2 * 2 + block / 2 % 2; }
/// Where odd scales have scale i.
constexpr int odd_scale_byte(int row, int i) { return (i / 8 * 4 + i % 4) * 16 + row; }
constexpr int odd_scale_shift(int i) { return i % 8 < 4 ? 0 : 4; }
/// What stands before a super-block's codes.
constexpr int header_bytes(const PanelLayout& layout) {
  return has_super_blocks(layout.scales)
             ? factor_bytes(layout.scales) + layout.super_blocks * scale_bytes(layout)
             : 0;
}
constexpr int code_bytes(const PanelLayout& layout) {
  return plane_bytes(layout.base) + plane_bytes(layout.extra);
}
/// The size of a block of 32 columns, without its part of the super-block's data.
constexpr int record_bytes(const PanelLayout& layout) {
  return code_bytes(layout) + (has_super_blocks(layout.scales) ? 0 : scale_bytes(layout)) +
         layout.element_bytes * kPanelRows * kBlockColumns;
}
/// The bits of a code in low planes.
constexpr int low_bits(const PanelLayout& layout) {
  return layout.tall ? kLowPlanes * plane_bits(Plane::kPairs) : 0;
}
/// The number of columns that share scales: a super-block, or a block.
constexpr int unit_columns(const PanelLayout& layout) {
  return (has_super_blocks(layout.scales) ? layout.super_blocks : 1) * kBlockColumns;
}
constexpr int unit_bytes(const PanelLayout& layout) {
  return header_bytes(layout) + unit_columns(layout) / kBlockColumns * record_bytes(layout);
}

/// A group of 32 activations of a kQ8 row: x = scale * q, |q| <= 127. A row is an array of groups.
struct Q8Group {
  std::int8_t q[kBlockColumns];
  float scale;
  float scaled_sum;     ///< scale * sum(q): what a min is multiplied by.
  std::int32_t offset;  ///< -128 * sum(q): where the sum of (code - zero) * q begins, when shifted right to
                        ///< -zero * sum(q).
};
static_assert(sizeof(Q8Group) == 44);

/// A group of kQ8Wide, likewise: the sums of its blocks are added up before the activations' scale is
/// applied.
inline constexpr int kWideColumns = 128;
inline constexpr int kWideBlocks = kWideColumns / kBlockColumns;
struct Q8Wide {
  std::int8_t q[kWideColumns];
  std::int32_t offsets[2 * kWideBlocks];  ///< As Q8Group's, of 16 q each.
  std::int16_t sums[2 * kWideBlocks];     ///< Of 16 q each ...
  std::int16_t block_sums[kWideBlocks];   ///< ... and of 32: what mins are multiplied by, two by two.
  float scale;
};

/// Factors of a block of activations for screening (screen.inl): the factor of the block's integers, the
/// offset added then, and the block's addition to bounds.
struct ScreenFactors {
  float factor;
  float offset;
  float bound;
};

}  // namespace weft::cpu
