#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
// matmul.comp for quantised weights on devices with dot products of bytes: x comes as codes (quantise.comp), and what
// 16 columns add is a product of integers, exact, times the scales. Threads and tiles as there (but rows of codes are
// small enough to be read in place), so again a row has the same bits whatever kTile is. Tensors: weight, codes of x,
// bias, ids, out. Params: outputs, columns, bytes of a weight's row, has bias, ids per row (0: no experts), x has a row
// for each id.
#include "common.glsl"
#include "unpack.glsl"
#include "blocks.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kType = 0;
layout(constant_id = 1) const uint kTile = 1;
#include "outputs.glsl"

// OpSDot of four bytes in a word (SPV_KHR_integer_dot_product).
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_of_bytes(uint a, uint b, spirv_literal int packed_4x8);

int dot16(uvec4 a, uvec4 b) {
  return dot_of_bytes(a.x, b.x, 0) + dot_of_bytes(a.y, b.y, 0) + dot_of_bytes(a.z, b.z, 0) + dot_of_bytes(a.w, b.w, 0);
}
float add16(uvec4 w, float scale, float m, uvec4 x, float x_scale, float sum) {
  float y = scale * float(dot16(w, x));
  if (has_min(kType)) y -= m * float(dot16(uvec4(0x01010101u), x));
  return fma(x_scale, y, sum);
}

void main() {
  const uint outputs = param(0), columns = param(1), n_ids = param(4);
  const uint lane = thread() % kLanes, slot = thread() / kLanes;
  const uint n = n_rows(), chunks = columns / 16u;
  const uint x_bytes = code_row_bytes(columns);
  const uint first_output = gl_WorkGroupID.x * kOutputs;
  const uint output_index = first_output + slot;
  for (uint first = gl_WorkGroupID.y * kTile; first < n; first += gl_NumWorkGroups.y * kTile) {
    uint64_t weight = address(0) + uint64_t(min(output_index, outputs - 1u)) * param(2);
    uint x_row = first;
    if (n_ids > 0u) {
      weight += uint64_t(ints(3).i[first]) * outputs * param(2);
      if (param(5) == 0u) x_row = first / n_ids;
    }
    float sums[kTile];
    for (uint r = 0; r < kTile; ++r) sums[r] = 0.0;
    for (uint chunk = lane; chunk < chunks; chunk += kLanes) {
      uvec4 w;
      float scale, m;
      codes16(kType, weight, chunk, w, scale, m);
      for (uint r = 0; r < kTile; ++r) {
        const uint64_t x = address(1) + uint64_t(kTile == 1u ? x_row : min(first + r, n - 1u)) * x_bytes;
        sums[r] = add16(w, scale, m, Codes(x).c[chunk], Floats(x + columns).f[chunk / 2u], sums[r]);
      }
    }
    store_outputs(sums, first, first_output);
  }
}
