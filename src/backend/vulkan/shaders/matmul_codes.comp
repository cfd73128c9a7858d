#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
// matmul.comp for quantised weights on devices with dot products of bytes: x comes as codes (quantise.comp), and what
// 16 columns add is a product of integers, exact, times the scales. Threads and tiles as there, so again a row has the
// same bits whatever kTile is. Tensors: weight, codes of x, bias, ids, out. Params: outputs, columns, bytes of a
// weight's row, has bias, ids per row (0: no experts), x has a row for each id.
#include "common.glsl"
#include "unpack.glsl"
#include "blocks.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kType = 0;
layout(constant_id = 1) const uint kTile = 1;
const uint kLanes = 8, kOutputs = 16;
shared uint tile[kTile * kLanes * 4];
shared float tile_scales[kTile * kLanes];
shared float parts[kLanes * kOutputs];

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
  const uint lane = gl_LocalInvocationID.x % kLanes, slot = gl_LocalInvocationID.x / kLanes;
  const uint n = n_rows(), chunks = columns / 16u;
  const uint64_t x_bytes = uint64_t(columns / kBlock) * kBlockWords * 4u;
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
    for (uint begin = 0; begin < chunks; begin += kLanes) {
      const uint chunk = begin + lane;
      uvec4 w = uvec4(0);
      float scale = 0.0, m = 0.0;
      if (chunk < chunks) codes16(kType, weight, chunk, w, scale, m);
      if (kTile == 1u) {
        if (chunk < chunks) {
          Words block = Words(address(1) + x_row * x_bytes + chunk / 2u * kBlockWords * 4u);
          const uint at = chunk % 2u * 4u;
          const uvec4 x = uvec4(block.w[at], block.w[at + 1u], block.w[at + 2u], block.w[at + 3u]);
          sums[0] = add16(w, scale, m, x, uintBitsToFloat(block.w[8]), sums[0]);
        }
        continue;
      }
      barrier();
      for (uint i = gl_LocalInvocationID.x; i < kTile * kLanes; i += 128u) {
        const uint r = i / kLanes, c = begin + i % kLanes;
        const bool there = first + r < n && c < chunks;
        Words block = Words(address(1) + (first + (there ? r : 0u)) * x_bytes + (there ? c / 2u : 0u) * kBlockWords * 4u);
        for (uint j = 0; j < 4u; ++j) tile[i * 4u + j] = block.w[c % 2u * 4u + j];
        tile_scales[i] = there ? uintBitsToFloat(block.w[8]) : 0.0;
      }
      barrier();
      for (uint r = 0; r < kTile; ++r) {
        const uint i = r * kLanes + lane;
        const uvec4 x = uvec4(tile[i * 4u], tile[i * 4u + 1u], tile[i * 4u + 2u], tile[i * 4u + 3u]);
        sums[r] = add16(w, scale, m, x, tile_scales[i], sums[r]);
      }
    }
    for (uint r = 0; r < kTile; ++r) {
      barrier();
      parts[gl_LocalInvocationID.x] = sums[r];
      barrier();
      if (gl_LocalInvocationID.x < kOutputs && first + r < n && first_output + gl_LocalInvocationID.x < outputs) {
        const uint o = gl_LocalInvocationID.x, base = o * kLanes;
        float y = ((parts[base] + parts[base + 1]) + (parts[base + 2] + parts[base + 3])) +
                  ((parts[base + 4] + parts[base + 5]) + (parts[base + 6] + parts[base + 7]));
        if (param(3) != 0u) y += floats(2).f[first_output + o];
        Floats(address(4) + uint64_t(first + r) * outputs * 4u).f[first_output + o] = y;
      }
    }
  }
}
