// Activations as codes (blocks.glsl), made by a thread for each block of 32 columns, so that the codes of a row depend on
// the row alone.
#include "codes.glsl"
#include "blocks.glsl"

// Block `block` of a row of `columns` codes.
void store_codes(uint64_t row, uint columns, uint block, vec4 v[kBlock / 4]) {
  float largest = 0.0;
  for (uint j = 0; j < kBlock / 4u; ++j) {
    const vec4 a = abs(v[j]);
    largest = max(largest, max(max(a.x, a.y), max(a.z, a.w)));
  }
  const float scale = largest / 127.0, to_code = largest > 0.0 ? 127.0 / largest : 0.0;
  int sums[2] = int[](0, 0);
  uint words[kBlock / 4];
  for (uint j = 0; j < kBlock / 4u; ++j) {
    const ivec4 codes = ivec4(roundEven(v[j] * to_code));
    words[j] = pack_codes(codes);
    sums[j / 4u] += codes.x + codes.y + codes.z + codes.w;
  }
  for (uint j = 0; j < 2u; ++j)
    Codes(row).c[block * 2u + j] = uvec4(words[4u * j], words[4u * j + 1u], words[4u * j + 2u], words[4u * j + 3u]);
  Scales(row + columns).s[block] = uvec2(floatBitsToUint(scale), uint(sums[0]) & 0xffffu | uint(sums[1]) << 16);
}
