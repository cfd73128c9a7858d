#version 460
#extension GL_GOOGLE_include_directive : require
// Rows of floats to signed codes of eight bits, with a scale and sums for each 32, for products of integers. A thread makes
// a block, so what comes of a row depends on the row alone. Tensors: x, out. Params: columns.
#include "common.glsl"
#include "unpack.glsl"
#include "blocks.glsl"
layout(local_size_x = 64) in;

void main() {
  const uint columns = param(0), blocks = columns / kBlock;
  for (uint i = gl_GlobalInvocationID.x; i < n_rows() * blocks; i += gl_NumWorkGroups.x * 64u) {
    Quads x = Quads(address(0) + uint64_t(i) * kBlock * 4u);
    vec4 v[kBlock / 4];
    float largest = 0.0;
    for (uint j = 0; j < kBlock / 4u; ++j) {
      v[j] = uintBitsToFloat(x.q[j]);
      const vec4 a = abs(v[j]);
      largest = max(largest, max(max(a.x, a.y), max(a.z, a.w)));
    }
    const float scale = largest / 127.0, to_code = largest > 0.0 ? 127.0 / largest : 0.0;
    const uint64_t row = address(1) + uint64_t(i / blocks) * code_row_bytes(columns);
    int sums[2] = int[](0, 0);
    uint words[kBlock / 4];
    for (uint j = 0; j < kBlock / 4u; ++j) {
      const ivec4 codes = ivec4(roundEven(v[j] * to_code));
      words[j] = pack_codes(codes);
      sums[j / 4u] += codes.x + codes.y + codes.z + codes.w;
    }
    for (uint j = 0; j < 2u; ++j)
      Codes(row).c[i % blocks * 2u + j] = uvec4(words[4u * j], words[4u * j + 1u], words[4u * j + 2u], words[4u * j + 3u]);
    Scales(row + columns).s[i % blocks] = uvec2(floatBitsToUint(scale), uint(sums[0]) & 0xffffu | uint(sums[1]) << 16);
  }
}
