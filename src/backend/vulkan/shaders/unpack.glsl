// Elements of stored rows (tensor/codec_blocks.h has the layouts), read as 32-bit words: no driver needs to know
// smaller types. Memory of tensors is a multiple of four bytes.

// As the enum StoredType in launch.h.
const uint kF32 = 0, kF16 = 1, kBF16 = 2, kQ4_0 = 3, kQ4_1 = 4, kQ5_0 = 5, kQ5_1 = 6, kQ8_0 = 7, kIQ4_NL = 8, kMXFP4 = 9,
           kQ2_K = 10, kQ3_K = 11, kQ4_K = 12, kQ5_K = 13, kQ6_K = 14, kIQ4_XS = 15;

const float kIQ4Values[16] = float[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
const float kMXFP4Values[16] = float[](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

uint byte_at(uint64_t at) {
  return Words(at & ~uint64_t(3)).w[0] >> ((uint(at) & 3u) * 8u) & 255u;
}
uint half_at(uint64_t at) {  // Of two bytes, at an even address.
  return Words(at & ~uint64_t(3)).w[0] >> ((uint(at) & 2u) * 8u) & 0xffffu;
}
uint word_at(uint64_t at) {
  Words words = Words(at & ~uint64_t(3));
  const uint shift = (uint(at) & 3u) * 8u;
  return shift == 0u ? words.w[0] : words.w[0] >> shift | words.w[1] << (32u - shift);
}
// `aligned`: of a type whose blocks are whole words.
uint word_at(uint64_t at, bool aligned) { return aligned ? Words(at).w[0] : word_at(at); }
float f16_at(uint64_t at) { return unpackHalf2x16(half_at(at)).x; }

// One element of a row of floats.
float float_at(uint type, uint64_t row, uint i) {
  if (type == kF32) return Floats(row).f[i];
  const uint bits = half_at(row + uint64_t(i) * 2u);
  return type == kF16 ? unpackHalf2x16(bits).x : uintBitsToFloat(bits << 16);
}

// One element of a row of a cache: of floats, Q8_0 or Q4_0.
float cached_at(uint type, uint64_t row, uint i) {
  if (type <= kBF16) return float_at(type, row, i);
  const uint j = i % 32u;
  const uint64_t block = row + i / 32u * (type == kQ8_0 ? 34u : 18u);
  if (type == kQ8_0) return f16_at(block) * float(int(byte_at(block + 2u + j)) << 24 >> 24);
  return f16_at(block) * (float(byte_at(block + 2u + j % 16u) >> j / 16u * 4u & 15u) - 8.0);
}

vec4 codes(uint word, uint shift, uint mask) {
  return vec4(word >> shift & mask, word >> (shift + 8u) & mask, word >> (shift + 16u) & mask, word >> (shift + 24u) & mask);
}
// Bit `shift` of each byte, as the bit worth `value`.
vec4 bits(uint word, uint shift, float value) { return codes(word, shift, 1u) * value; }
// Four consecutive bits of a mask.
vec4 mask_bits(uint mask, uint first, float value) {
  return vec4(mask >> first & 1u, mask >> (first + 1u) & 1u, mask >> (first + 2u) & 1u, mask >> (first + 3u) & 1u) * value;
}
vec4 signed_bytes(uint word) {
  const int w = int(word);
  return vec4(w << 24 >> 24, w << 16 >> 24, w << 8 >> 24, w >> 24);
}
vec4 iq4_values(uint word, uint shift) {
  const uvec4 c = uvec4(codes(word, shift, 15u));
  return vec4(kIQ4Values[c.x], kIQ4Values[c.y], kIQ4Values[c.z], kIQ4Values[c.w]);
}
vec4 mxfp4_values(uint word, uint shift) {
  const uvec4 c = uvec4(codes(word, shift, 15u));
  return vec4(kMXFP4Values[c.x], kMXFP4Values[c.y], kMXFP4Values[c.z], kMXFP4Values[c.w]);
}
float scale6(uint64_t at, uint i) {
  return float(i < 4u ? byte_at(at + i) & 63u : (byte_at(at + i + 4u) & 15u) | byte_at(at + i - 4u) >> 6 << 4);
}
float min6(uint64_t at, uint i) {
  return float(i < 4u ? byte_at(at + i + 4u) & 63u : byte_at(at + i + 4u) >> 4 | byte_at(at + i) >> 6 << 4);
}

// Elements [16 chunk, 16 chunk + 16) of a row of `columns`; zeros past its end.
void unpack16(uint type, uint64_t row, uint chunk, uint columns, out vec4 v[4]) {
  if (type == kF32 && chunk * 16u + 16u <= columns) {
    for (uint i = 0; i < 4; ++i) {
      Floats four = Floats(row + uint64_t(chunk * 16u + i * 4u) * 4u);
      v[i] = vec4(four.f[0], four.f[1], four.f[2], four.f[3]);
    }
  } else if (type <= kBF16) {
    for (uint i = 0; i < 4; ++i)
      for (uint j = 0; j < 4; ++j) {
        const uint at = chunk * 16u + i * 4u + j;
        v[i][j] = at < columns ? float_at(type, row, at) : 0.0;
      }
  } else if (type <= kMXFP4) {  // Blocks of 32: the lower, then the upper nibbles.
    const uint upper = chunk & 1u;
    const uint block_bytes = type == kQ4_0 || type == kIQ4_NL ? 18u : type == kQ4_1 ? 20u : type == kQ5_0 ? 22u
                             : type == kQ5_1 ? 24u : type == kQ8_0 ? 34u : 17u;
    const bool aligned = block_bytes % 4u == 0u;
    const uint64_t block = row + uint64_t(chunk >> 1) * block_bytes;
    float d = 0.0, m = 0.0;
    uint high = 0;
    if (type == kMXFP4) {
      const uint e = byte_at(block);
      d = uintBitsToFloat(e < 2u ? 0x00200000u << e : (e - 1u) << 23);
    } else {
      d = f16_at(block);
    }
    if (type == kQ4_1 || type == kQ5_1) m = f16_at(block + 2u);
    if (type == kQ5_0) high = word_at(block + 2u) >> (16u * upper);
    if (type == kQ5_1) high = word_at(block + 4u) >> (16u * upper);
    const uint64_t data = block + (type == kQ8_0 ? 2u + 16u * upper : block_bytes - 16u);
    for (uint i = 0; i < 4; ++i) {
      const uint word = word_at(data + i * 4u, aligned);
      if (type == kQ8_0) v[i] = d * signed_bytes(word);
      else if (type == kIQ4_NL) v[i] = d * iq4_values(word, upper * 4u);
      else if (type == kMXFP4) v[i] = d * mxfp4_values(word, upper * 4u);
      else {
        vec4 q = codes(word, upper * 4u, 15u);
        if (type == kQ5_0 || type == kQ5_1) q += mask_bits(high, i * 4u, 16.0);
        if (type == kQ4_0) q -= 8.0;
        if (type == kQ5_0) q -= 16.0;
        v[i] = d * q + m;
      }
    }
  } else {  // Blocks of 256, of sub-blocks of 16 or 32.
    const uint s = chunk & 15u;
    const uint block_bytes = type == kQ2_K ? 84u : type == kQ3_K ? 110u : type == kQ4_K ? 144u : type == kQ5_K ? 176u
                             : type == kQ6_K ? 210u : 136u;
    const bool aligned = block_bytes % 4u == 0u;
    const uint64_t block = row + uint64_t(chunk >> 4) * block_bytes;
    const uint odd = (s & 1u) * 16u;         // The second half of 32 bytes.
    const uint pair = s >> 1;                // Which 32 elements.
    float scale = 0.0, m = 0.0, offset = 0.0;
    uint64_t low = block, high = block;
    uint low_shift = pair % 2u * 4u, high_shift = pair;
    if (type == kQ2_K) {
      const uint sm = byte_at(block + s);
      scale = f16_at(block + 80u) * float(sm & 15u);
      m = f16_at(block + 82u) * float(sm >> 4);
      low = block + 16u + s / 8u * 32u + odd;
      low_shift = pair % 4u * 2u;
    } else if (type == kQ3_K) {
      const uint bits4 = byte_at(block + 96u + s % 8u) >> (s / 8u * 4u) & 15u;
      const uint bits2 = byte_at(block + 104u + s % 4u) >> (s / 4u * 2u) & 3u;
      scale = f16_at(block + 108u) * (float(bits4 | bits2 << 4) - 32.0);
      low = block + 32u + s / 8u * 32u + odd;
      low_shift = pair % 4u * 2u;
      high = block + odd;
      offset = 4.0;
    } else if (type == kQ4_K || type == kQ5_K) {
      scale = f16_at(block) * scale6(block + 4u, pair);
      m = f16_at(block + 2u) * min6(block + 4u, pair);
      low = block + (type == kQ4_K ? 16u : 48u) + pair / 2u * 32u + odd;
      high = block + 16u + odd;
    } else if (type == kQ6_K) {
      scale = f16_at(block + 208u) * float(int(byte_at(block + 192u + s)) << 24 >> 24);
      low = block + s / 8u * 64u + s % 4u * 16u;
      low_shift = s / 4u % 2u * 4u;
      high = block + 128u + s / 8u * 32u + odd;
      high_shift = pair % 4u * 2u;
      offset = 32.0;
    } else {  // iq4_xs
      const uint bits2 = byte_at(block + 2u + pair / 4u) >> (pair % 4u * 2u) & 3u;
      const uint bits4 = byte_at(block + 4u + pair / 2u) >> (pair % 2u * 4u) & 15u;
      scale = f16_at(block) * (float(bits4 | bits2 << 4) - 32.0);
      low = block + 8u + pair * 16u;
      low_shift = (s & 1u) * 4u;
    }
    for (uint i = 0; i < 4; ++i) {
      const uint word = word_at(low + i * 4u, aligned);
      if (type == kIQ4_XS) {
        v[i] = scale * iq4_values(word, low_shift);
        continue;
      }
      vec4 q = codes(word, low_shift, type == kQ2_K || type == kQ3_K ? 3u : 15u);
      if (type == kQ3_K) q += bits(word_at(high + i * 4u, aligned), high_shift, 4.0);
      if (type == kQ5_K) q += bits(word_at(high + i * 4u, aligned), high_shift, 16.0);
      if (type == kQ6_K) q += 16.0 * codes(word_at(high + i * 4u, aligned), high_shift, 3u);
      v[i] = scale * (q - offset) - m;
    }
  }
}
