// Elements of stored rows (tensor/codec_blocks.h has the layouts).
#include "loads.glsl"
#include "codes.glsl"

#define STORED_TYPE(name, number) const uint name = number;
#include "../../gpu/stored_types.inc"
#undef STORED_TYPE

const int kIQ4Values[16] = int[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
const int kMXFP4Values[16] = int[](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

// One element of a row of floats.
float float_at(uint type, uint64_t row, uint i) {
  if (type == kF32) return Floats(row).f[i];
  const uint bits = half_at(row + uint64_t(i) * 2u);
  return type == kF16 ? unpackHalf2x16(bits).x : uintBitsToFloat(bits << 16);
}

// Bytes of a block of 32 elements of the quantised types of caches.
uint small_block_bytes(uint type) {
  return type == kQ8_0 ? 34u : type == kQ4_1 ? 20u : type == kQ5_0 ? 22u : type == kQ5_1 ? 24u : 18u;
}
// One element of a row of a cache: of floats, or of a quantised type with such blocks.
float cached_at(uint type, uint64_t row, uint i) {
  if (type <= kBF16) return float_at(type, row, i);
  const uint j = i % 32u;
  const uint64_t block = row + i / 32u * small_block_bytes(type);
  const float scale = f16_at(block);
  if (type == kQ8_0) return scale * float(int(byte_at(block + 2u + j)) << 24 >> 24);
  uint c = byte_at(block + small_block_bytes(type) - 16u + j % 16u) >> j / 16u * 4u & 15u;
  if (type == kIQ4_NL) return scale * float(kIQ4Values[c]);
  if (type == kQ5_0 || type == kQ5_1) c |= (byte_at(block + (type == kQ5_1 ? 4u : 2u) + j / 8u) >> j % 8u & 1u) << 4;
  if (type == kQ4_1 || type == kQ5_1) return scale * float(c) + f16_at(block + 2u);
  return scale * (float(c) - (type == kQ4_0 ? 8.0 : 16.0));
}

vec4 signed_bytes(uint word) {
  const int w = int(word);
  return vec4(w << 24 >> 24, w << 16 >> 24, w << 8 >> 24, w >> 24);
}
// Bytes below 2 * half become bytes from -half on; half is a power of two below 128.
uint centred(uint word, uint half_range) {
  const uint flipped = word ^ half_range * 0x01010101u;
  // What has the half's bit now is negative: the bits above it are set.
  return flipped | (flipped & half_range * 0x01010101u) / half_range * (256u - 2u * half_range);
}
// The lowest four bits of a mask, as the bits worth 16 of four bytes.
uint fifth_bits(uint mask) {
  return (mask & 1u) << 4 | (mask & 2u) << 11 | (mask & 4u) << 18 | (mask & 8u) << 25;
}
uint table_codes(uint word, uint shift, bool mxfp4) {
  const uvec4 c = uvec4(word, word >> 8, word >> 16, word >> 24) >> shift & 15u;
  return mxfp4 ? pack_codes(ivec4(kMXFP4Values[c.x], kMXFP4Values[c.y], kMXFP4Values[c.z], kMXFP4Values[c.w]))
               : pack_codes(ivec4(kIQ4Values[c.x], kIQ4Values[c.y], kIQ4Values[c.z], kIQ4Values[c.w]));
}
float scale6(uint64_t at, uint i) {
  return float(i < 4u ? byte_at(at + i) & 63u : (byte_at(at + i + 4u) & 15u) | byte_at(at + i - 4u) >> 6 << 4);
}
float min6(uint64_t at, uint i) {
  return float(i < 4u ? byte_at(at + i + 4u) & 63u : byte_at(at + i + 4u) >> 4 | byte_at(at + i) >> 6 << 4);
}

// Whether a type has more than codes and scales: values are scale * code - m.
bool has_min(uint type) {
  return type == kQ4_1 || type == kQ5_1 || type == kQ2_K || type == kQ4_K || type == kQ5_K;
}

#include "unpack_small.glsl"

// Elements [16 chunk, 16 chunk + 16) of a row of a quantised type are scale * code - m.
void codes16(uint type, uint64_t row, uint chunk, out uvec4 codes, out float scale, out float m) {
  m = 0.0;
  if (type > kIQ4_XS) {
    small_codes16(type, row, chunk, codes, scale);
    return;
  }
  if (type <= kMXFP4) {  // Blocks of 32: the lower, then the upper nibbles.
    const uint upper = chunk & 1u;
    const uint block_bytes = type == kQ4_0 || type == kIQ4_NL ? 18u : type == kQ4_1 ? 20u : type == kQ5_0 ? 22u
                             : type == kQ5_1 ? 24u : type == kQ8_0 ? 34u : 17u;
    const uint64_t block = row + uint64_t(chunk >> 1) * block_bytes;
    uint high = 0;
    if (type == kMXFP4) {
      const uint e = byte_at(block);
      scale = uintBitsToFloat(e < 2u ? 0x00200000u << e : (e - 1u) << 23);
    } else if (type == kQ4_1 || type == kQ5_1) {
      const vec2 both = unpackHalf2x16(Words(block).w[0]);
      scale = both.x;
      m = -both.y;
    } else {
      scale = f16_at(block);
    }
    if (type == kQ5_0) high = half_at(block + 2u + 2u * upper);
    if (type == kQ5_1) high = Words(block + 4u).w[0] >> (16u * upper);
    const uint64_t data = block + (type == kQ8_0 ? 2u + 16u * upper : block_bytes - 16u);
    const uvec4 words = bytes16(data, block_bytes);
    for (uint i = 0; i < 4; ++i) {
      const uint word = words[i];
      if (type == kQ8_0) codes[i] = word;
      else if (type == kIQ4_NL || type == kMXFP4) codes[i] = table_codes(word, upper * 4u, type == kMXFP4);
      else {
        uint c = word >> upper * 4u & 0x0f0f0f0fu;
        if (type == kQ5_0 || type == kQ5_1) c |= fifth_bits(high >> i * 4u);
        codes[i] = type == kQ4_0 ? centred(c, 8u) : type == kQ5_0 ? centred(c, 16u) : c;
      }
    }
  } else {  // Blocks of 256, of sub-blocks of 16 or 32.
    const uint s = chunk & 15u;
    const uint block_bytes = type == kQ2_K ? 84u : type == kQ3_K ? 110u : type == kQ4_K ? 144u : type == kQ5_K ? 176u
                             : type == kQ6_K ? 210u : 136u;
    const uint64_t block = row + uint64_t(chunk >> 4) * block_bytes;
    const uint odd = (s & 1u) * 16u;         // The second half of 32 bytes.
    const uint pair = s >> 1;                // Which 32 elements.
    uint64_t low = block, high = block;
    uint low_shift = pair % 2u * 4u, high_shift = pair;
    if (type == kQ2_K) {
      const uint sm = byte_at(block + s);
      const vec2 both = unpackHalf2x16(Words(block + 80u).w[0]);
      scale = both.x * float(sm & 15u);
      m = both.y * float(sm >> 4);
      low = block + 16u + s / 8u * 32u + odd;
      low_shift = pair % 4u * 2u;
    } else if (type == kQ3_K) {
      const uint bits4 = byte_at(block + 96u + s % 8u) >> (s / 8u * 4u) & 15u;
      const uint bits2 = byte_at(block + 104u + s % 4u) >> (s / 4u * 2u) & 3u;
      scale = f16_at(block + 108u) * (float(bits4 | bits2 << 4) - 32.0);
      low = block + 32u + s / 8u * 32u + odd;
      low_shift = pair % 4u * 2u;
      high = block + odd;
    } else if (type == kQ4_K || type == kQ5_K) {
      const vec2 both = unpackHalf2x16(Words(block).w[0]);
      scale = both.x * scale6(block + 4u, pair);
      m = both.y * min6(block + 4u, pair);
      low = block + (type == kQ4_K ? 16u : 48u) + pair / 2u * 32u + odd;
      high = block + 16u + odd;
    } else if (type == kQ6_K) {
      scale = f16_at(block + 208u) * float(int(byte_at(block + 192u + s)) << 24 >> 24);
      low = block + s / 8u * 64u + s % 4u * 16u;
      low_shift = s / 4u % 2u * 4u;
      high = block + 128u + s / 8u * 32u + odd;
      high_shift = pair % 4u * 2u;
    } else {  // iq4_xs
      const uint bits2 = byte_at(block + 2u + pair / 4u) >> (pair % 4u * 2u) & 3u;
      const uint bits4 = byte_at(block + 4u + pair / 2u) >> (pair % 2u * 4u) & 15u;
      scale = f16_at(block) * (float(bits4 | bits2 << 4) - 32.0);
      low = block + 8u + pair * 16u;
      low_shift = (s & 1u) * 4u;
    }
    const uvec4 words = bytes16(low, block_bytes);
    const bool has_high = type == kQ3_K || type == kQ5_K || type == kQ6_K;
    const uvec4 high_words = has_high ? bytes16(high, block_bytes) >> high_shift : uvec4(0);
    for (uint i = 0; i < 4; ++i) {
      if (type == kIQ4_XS) {
        codes[i] = table_codes(words[i], low_shift, false);
        continue;
      }
      uint c = words[i] >> low_shift & (type == kQ2_K || type == kQ3_K ? 0x03030303u : 0x0f0f0f0fu);
      if (type == kQ3_K) c = centred(c | (high_words[i] & 0x01010101u) << 2, 4u);
      if (type == kQ5_K) c |= (high_words[i] & 0x01010101u) << 4;
      if (type == kQ6_K) c = centred(c | (high_words[i] & 0x03030303u) << 4, 32u);
      codes[i] = c;
    }
  }
}

// Two halves of a word.
vec2 two_halves(uint type, uint word) {
  return type == kF16 ? unpackHalf2x16(word) : uintBitsToFloat(uvec2(word << 16, word & 0xffff0000u));
}

// Elements [16 chunk, 16 chunk + 16) of a row of `columns`; zeros past its end.
void unpack16(uint type, uint64_t row, uint chunk, uint columns, out vec4 v[4]) {
  if (type > kBF16) {
    uvec4 codes;
    float scale, m;
    codes16(type, row, chunk, codes, scale, m);
    for (uint i = 0; i < 4; ++i) v[i] = has_min(type) ? scale * signed_bytes(codes[i]) - m : scale * signed_bytes(codes[i]);
  } else if (columns % 16u != 0u) {
    for (uint i = 0; i < 16; ++i) {
      const uint at = chunk * 16u + i;
      v[i / 4u][i % 4u] = at < columns ? float_at(type, row, at) : 0.0;
    }
  } else if (type == kF32) {
    for (uint i = 0; i < 4; ++i) v[i] = uintBitsToFloat(Quads(row + uint64_t(chunk) * 64u).q[i]);
  } else {
    for (uint i = 0; i < 2; ++i) {
      const uvec4 words = Quads(row + uint64_t(chunk) * 32u).q[i];
      v[2u * i] = vec4(two_halves(type, words.x), two_halves(type, words.y));
      v[2u * i + 1u] = vec4(two_halves(type, words.z), two_halves(type, words.w));
    }
  }
}
