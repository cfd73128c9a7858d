// Floats to the types that caches keep. Halves are rounded to nearest even by hand: drivers may round as they like.
uint f32_to_f16_bits(float value) {
  const uint u = floatBitsToUint(value);
  const uint sign = u >> 16 & 0x8000u;
  const uint a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u;
  if (a >= 0x47800000u) return sign | 0x7c00u;
  if (a < 0x38800000u) {  // Denormal: the value in units of 2^-24.
    return sign | uint(roundEven(uintBitsToFloat(a) * 16777216.0));
  }
  const uint rounded = a + 0xfffu + (a >> 13 & 1u);
  return sign | (rounded - 0x38000000u) >> 13;
}
uint f32_to_bf16_bits(float value) {
  const uint u = floatBitsToUint(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return u >> 16 | 0x40u;
  return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}
// Elements i and i + 1, i even, of a row.
void store_two(uint type, uint64_t row, uint i, vec2 v) {
  if (type == kF32) {
    Floats(row).f[i] = v.x;
    Floats(row).f[i + 1u] = v.y;
  } else if (type == kF16) {
    Words(row).w[i >> 1] = f32_to_f16_bits(v.x) | f32_to_f16_bits(v.y) << 16;
  } else {
    Words(row).w[i >> 1] = f32_to_bf16_bits(v.x) | f32_to_bf16_bits(v.y) << 16;
  }
}

// Blocks of some types do not have a whole number of words; two blocks do.
const uint kPair = 64;  // Elements.
uint pair_bytes(uint type) { return 2u * small_block_bytes(type); }
uint nearest_iq4(float value) {
  uint best = 0;
  for (uint c = 1; c < 16u; ++c)
    if (abs(value - float(kIQ4Values[c])) < abs(value - float(kIQ4Values[best]))) best = c;
  return best;
}
// The scale with which codes that are nearest with another scale leave the least error.
float refitted_iq4(float x[kPair], uint first, float scale) {
  float products = 0.0, squares = 0.0;
  for (uint i = 0; i < 32u; ++i) {
    const float v = float(kIQ4Values[nearest_iq4(x[first + i] / scale)]);
    products = fma(v, x[first + i], products);
    squares = fma(v, v, squares);
  }
  return products / squares;
}
// Codes and scales as in tensor/codec_small_blocks.cpp; the scale of IQ4_NL is searched less thoroughly.
void store_pair(uint type, uint64_t at, float x[kPair]) {
  uint words[17];
  for (uint i = 0; i < 17u; ++i) words[i] = 0u;
  const bool has_min = type == kQ4_1 || type == kQ5_1, has_fifth = type == kQ5_0 || type == kQ5_1;
  const uint top = has_fifth ? 31u : 15u;
  for (uint b = 0; b < 2u; ++b) {
    float farthest = x[b * 32u], least = farthest, greatest = farthest;
    for (uint i = 1; i < 32u; ++i) {
      const float v = x[b * 32u + i];
      if (abs(v) > abs(farthest)) farthest = v;
      least = min(least, v);
      greatest = max(greatest, v);
    }
    const uint block = b * small_block_bytes(type), codes = block + small_block_bytes(type) - 16u;
    const float half_range = float(top + 1u) / 2.0;
    float scale = type == kQ8_0     ? abs(farthest) / 127.0
                  : type == kIQ4_NL ? farthest / -127.0
                  : has_min         ? (greatest - least) / float(top)
                                    : farthest / -half_range;
    if (type == kIQ4_NL && scale != 0.0) scale = refitted_iq4(x, b * 32u, scale);
    const float to_code = scale != 0.0 ? 1.0 / scale : 0.0;
    words[block / 4u] |= f32_to_f16_bits(scale) << block % 4u * 8u;
    if (has_min) words[block / 4u] |= f32_to_f16_bits(least) << 16;
    for (uint i = 0; i < 32u; ++i) {
      const float v = x[b * 32u + i];
      if (type == kQ8_0) {
        const float code = v * to_code;
        const uint to = block + 2u + i;
        words[to / 4u] |= (uint(int(sign(code) * floor(abs(code) + 0.5))) & 255u) << to % 4u * 8u;
        continue;
      }
      const uint code = type == kIQ4_NL ? nearest_iq4(v * to_code)
                        : min(uint(has_min ? (v - least) * to_code + 0.5 : v * to_code + (half_range + 0.5)), top);
      const uint to = codes + i % 16u;
      words[to / 4u] |= (code & 15u) << to % 4u * 8u + i / 16u * 4u;
      if (has_fifth) {
        const uint high = block + (has_min ? 4u : 2u) + i / 8u;
        words[high / 4u] |= (code >> 4) << high % 4u * 8u + i % 8u;
      }
    }
  }
  for (uint i = 0; i < pair_bytes(type) / 4u; ++i) Words(at).w[i] = words[i];
}
