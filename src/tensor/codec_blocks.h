#pragma once
// The codecs of single blocks, one pair of functions a quantised type, for codec.cpp's table. A block is
// block_bytes bytes of any alignment. Inside this layer only.
//
// Layouts (all little-endian; "codes" are the small integers that encode values):
//   q4_0   f16 d | 16 bytes: byte j has code j (low) and j + 16 (high)           x = d (q - 8)
//   q4_1   f16 d | f16 m | as q4_0                                               x = d q + m
//   q5_0   f16 d | 32 bits: bit 4 of the codes | as q4_0                         x = d (q - 16)
//   q5_1   f16 d | f16 m | 32 bits | as q4_0                                     x = d q + m
//   q8_0   f16 d | 32 signed bytes                                               x = d q
//   iq4_nl as q4_0; the code picks one of 16 values, denser around 0             x = d value[q]
//   mxfp4  8-bit exponent e | as q4_0; the code is a float of 1 + 2 + 1 bits     x = 2^(e - 127) value[q]
//   nvfp4  64 elements: 4 floats s of 4 + 3 bits, of 16 elements each | 4 times 8 bytes: byte j has code j
//          (low) and j + 8                                                  x = s value[q]
//   q1_0   128 elements: f16 d | 16 bytes: one bit each                     x = d or -d
//   tq1_0  256 elements: 52 bytes with five (the last four: four) digits to the base 3 each | f16 d
//   tq2_0  256 elements: 64 bytes of 2-bit codes | f16 d                    x = d (q - 1)
// K types hold 256 elements in sub-blocks of 16 or 32, whose scales s and minima m are small integers
// themselves:
//   q2_K   16 bytes: s (low), m (high) | 64 bytes of 2-bit codes | f16 d | f16 dmin     x = (d s) q - dmin m
//   q3_K   32 bytes: bit 2 of the codes | 64 bytes: bits 0, 1 | 12 bytes: s | f16 d     x = (d s) q
//   q4_K   f16 d | f16 dmin | 12 bytes: s, m | 128 bytes of 4-bit codes                 x = (d s) q - dmin m
//   q5_K   f16 d | f16 dmin | 12 bytes: s, m | 32 bytes: bit 4 | 128 bytes              x = (d s) q - dmin m
//   q6_K   128 bytes: bits 0 to 3 | 64 bytes: bits 4, 5 | 16 signed bytes: s | f16 d    x = (d s) q
//   iq4_xs f16 d | 16 bits: bits 4, 5 of s | 4 bytes: bits 0 to 3 | 128 bytes           x = (d s) value[q]
// IQ types of one to three bits hold 256 elements, of which eight or four have a common entry g in a grid of
// vectors (codec_grids.h); s is of 32 elements or of 16:
//   iq1_s    f16 d | 32 bytes: bits 0..7 of entries | 8 words: bits 8..10, s, sign of the eighth
//   iq1_m    32 bytes | 16 bytes: bits 8..10 and the sign of the eighth | 4 words: s, and four bits of d each
//                                                                             x = (d (2 s + 1)) (g +- 1 / 8)
//   iq2_xxs  f16 d | 8 times: 4 entries, 4 times 7 signs, s
//   iq2_xs   f16 d | 32 words: entry, 7 signs | 8 bytes: s
//   iq2_s    f16 d | 32 bytes: bits 0..7 of entries | 32 bytes: signs | 8 bytes: bits 8, 9 | 8 bytes: s
//                                                                             x = +-(d (2 s + 1) / 8) g
//   iq3_xxs  f16 d | 64 bytes: entries | 8 times: 4 times 7 signs, s          x = +-(d (2 s + 1) / 4) g
//   iq3_s    f16 d | 64 bytes: bits 0..7 of entries | 8 bytes: bit 8 | 32 bytes: signs | 4 bytes: s
//                                                                             x = +-(d (2 s + 1)) g
// Products are rounded to float in the order of the brackets.
#include <cstdint>

namespace weft::codec {

/// value[q] of iq4_nl and iq4_xs.
inline constexpr std::int8_t kIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

/// Twice the values of mxfp4 and nvfp4: floats of 1 sign, 2 exponent and 1 mantissa bits.
inline constexpr std::int8_t kFP4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

using Unpack = void (*)(const std::uint8_t* block, float* out);
/// Takes finite values of at most kMaxPacked, and the weights of their errors, from 0 to 1. Null: all count
/// alike.
using Pack = void (*)(const float* values, const float* weights, std::uint8_t* block);

/// Above the range of any type with an f16 scale; larger values are clamped to it before packing.
inline constexpr float kMaxPacked = 1e9f;

void unpack_q4_0(const std::uint8_t* block, float* out);
void unpack_q4_1(const std::uint8_t* block, float* out);
void unpack_q5_0(const std::uint8_t* block, float* out);
void unpack_q5_1(const std::uint8_t* block, float* out);
void unpack_q8_0(const std::uint8_t* block, float* out);
void unpack_iq4_nl(const std::uint8_t* block, float* out);
void unpack_mxfp4(const std::uint8_t* block, float* out);
void unpack_q2_k(const std::uint8_t* block, float* out);
void unpack_q3_k(const std::uint8_t* block, float* out);
void unpack_q4_k(const std::uint8_t* block, float* out);
void unpack_q5_k(const std::uint8_t* block, float* out);
void unpack_q6_k(const std::uint8_t* block, float* out);
void unpack_iq4_xs(const std::uint8_t* block, float* out);
void unpack_nvfp4(const std::uint8_t* block, float* out);
void unpack_q1_0(const std::uint8_t* block, float* out);
void unpack_tq1_0(const std::uint8_t* block, float* out);
void unpack_tq2_0(const std::uint8_t* block, float* out);
void unpack_iq1_s(const std::uint8_t* block, float* out);
void unpack_iq1_m(const std::uint8_t* block, float* out);
void unpack_iq2_xxs(const std::uint8_t* block, float* out);
void unpack_iq2_xs(const std::uint8_t* block, float* out);
void unpack_iq2_s(const std::uint8_t* block, float* out);
void unpack_iq3_xxs(const std::uint8_t* block, float* out);
void unpack_iq3_s(const std::uint8_t* block, float* out);

void pack_q4_0(const float* values, const float* weights, std::uint8_t* block);
void pack_q4_1(const float* values, const float* weights, std::uint8_t* block);
void pack_q5_0(const float* values, const float* weights, std::uint8_t* block);
void pack_q5_1(const float* values, const float* weights, std::uint8_t* block);
void pack_q8_0(const float* values, const float* weights, std::uint8_t* block);
void pack_iq4_nl(const float* values, const float* weights, std::uint8_t* block);
void pack_mxfp4(const float* values, const float* weights, std::uint8_t* block);
void pack_q2_k(const float* values, const float* weights, std::uint8_t* block);
void pack_q3_k(const float* values, const float* weights, std::uint8_t* block);
void pack_q4_k(const float* values, const float* weights, std::uint8_t* block);
void pack_q5_k(const float* values, const float* weights, std::uint8_t* block);
void pack_q6_k(const float* values, const float* weights, std::uint8_t* block);
void pack_iq4_xs(const float* values, const float* weights, std::uint8_t* block);
void pack_nvfp4(const float* values, const float* weights, std::uint8_t* block);
void pack_q1_0(const float* values, const float* weights, std::uint8_t* block);
void pack_tq1_0(const float* values, const float* weights, std::uint8_t* block);
void pack_tq2_0(const float* values, const float* weights, std::uint8_t* block);
void pack_iq1_s(const float* values, const float* weights, std::uint8_t* block);
void pack_iq1_m(const float* values, const float* weights, std::uint8_t* block);
void pack_iq2_xxs(const float* values, const float* weights, std::uint8_t* block);
void pack_iq2_xs(const float* values, const float* weights, std::uint8_t* block);
void pack_iq2_s(const float* values, const float* weights, std::uint8_t* block);
void pack_iq3_xxs(const float* values, const float* weights, std::uint8_t* block);
void pack_iq3_s(const float* values, const float* weights, std::uint8_t* block);

}  // namespace weft::codec
