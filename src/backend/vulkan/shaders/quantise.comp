#version 460
#extension GL_GOOGLE_include_directive : require
// Rows of floats to signed codes of eight bits, with a scale for each 32, for products of integers. A thread makes a
// block, so what comes of a row depends on the row alone. Tensors: x, out. Params: columns.
#include "common.glsl"
#include "unpack.glsl"
#include "blocks.glsl"
layout(local_size_x = 64) in;

void main() {
  const uint blocks = param(0) / kBlock;
  for (uint i = gl_GlobalInvocationID.x; i < n_rows() * blocks; i += gl_NumWorkGroups.x * 64u) {
    Floats x = Floats(address(0) + uint64_t(i) * kBlock * 4u);
    vec4 v[kBlock / 4];
    float largest = 0.0;
    for (uint j = 0; j < kBlock / 4u; ++j) {
      v[j] = vec4(x.f[j * 4u], x.f[j * 4u + 1u], x.f[j * 4u + 2u], x.f[j * 4u + 3u]);
      const vec4 a = abs(v[j]);
      largest = max(largest, max(max(a.x, a.y), max(a.z, a.w)));
    }
    const float scale = largest / 127.0, to_code = largest > 0.0 ? 127.0 / largest : 0.0;
    const uint64_t row = address(1) + uint64_t(i / blocks) * code_row_bytes(param(0));
    Words codes = Words(row + i % blocks * kBlock);
    for (uint j = 0; j < kBlock / 4u; ++j) codes.w[j] = pack_codes(ivec4(roundEven(v[j] * to_code)));
    Floats(row + param(0)).f[i % blocks] = scale;
  }
}
