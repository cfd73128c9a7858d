// Floats to the types that caches keep. Rounded to nearest even by hand: drivers may round as they like.
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
