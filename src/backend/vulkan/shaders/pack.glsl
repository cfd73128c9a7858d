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

// A block of Q8_0 or Q4_0 does not have a whole number of words; two blocks do.
const uint kPair = 64;  // Elements.
uint pair_bytes(uint type) { return type == kQ8_0 ? 68u : 36u; }
// Codes and scales as in tensor/codec_small_blocks.cpp.
void store_pair(uint type, uint64_t at, float x[kPair]) {
  uint words[17];
  for (uint i = 0; i < 17u; ++i) words[i] = 0u;
  for (uint b = 0; b < 2u; ++b) {
    float farthest = x[b * 32u];
    for (uint i = 1; i < 32u; ++i)
      if (abs(x[b * 32u + i]) > abs(farthest)) farthest = x[b * 32u + i];
    const float scale = type == kQ8_0 ? abs(farthest) / 127.0 : farthest / -8.0;
    const float to_code = scale != 0.0 ? 1.0 / scale : 0.0;
    const uint block = b * pair_bytes(type) / 2u;
    words[block / 4u] |= f32_to_f16_bits(scale) << block % 4u * 8u;
    for (uint i = 0; i < 32u; ++i) {
      const float code = x[b * 32u + i] * to_code;
      if (type == kQ8_0) {
        const uint to = block + 2u + i;
        words[to / 4u] |= (uint(int(sign(code) * floor(abs(code) + 0.5))) & 255u) << to % 4u * 8u;
      } else {
        const uint to = block + 2u + i % 16u;
        words[to / 4u] |= min(uint(code + 8.5), 15u) << to % 4u * 8u + i / 16u * 4u;
      }
    }
  }
  for (uint i = 0; i < pair_bytes(type) / 4u; ++i) Words(at).w[i] = words[i];
}
