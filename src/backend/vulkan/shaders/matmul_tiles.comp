#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// matmul.comp for many rows, in tiles. Weights are unpacked into shared memory as floats. Tensors, params: as there.
#include "common.glsl"
#include "unpack.glsl"
#include "products.glsl"
#include "float_blocks.glsl"
#include "blocks.glsl"
#include "tiles.glsl"
const uint kQuads = 8 + 1;  // Of a block, and one that spreads rows over the banks.
shared vec4 w_quads[kTileOutputs * kQuads];
shared vec4 x_quads[kTileRows * kQuads];

void fetch(uint expert, uint block) {
  const uint columns = param(1);
  for (uint i = gl_LocalInvocationID.x; i < kTileOutputs * 2u; i += kThreads) {
    vec4 v[4];
    load_chunk(kType, weight_row(expert, tile_output(i / 2u)), 2u * block + i % 2u, columns, v);
    for (uint q = 0; q < 4u; ++q) w_quads[i / 2u * kQuads + i % 2u * 4u + q] = v[q];
  }
  for (uint i = gl_LocalInvocationID.x; i < kTileRows * 2u; i += kThreads) {
    vec4 v[4];
    load_chunk(kF32, address(1) + uint64_t(x_rows[i / 2u]) * columns * 4u, 2u * block + i % 2u, columns, v);
    for (uint q = 0; q < 4u; ++q) x_quads[i / 2u * kQuads + i % 2u * 4u + q] = v[q];
  }
}

void main() {
  uint expert;
  for (uint tile = gl_WorkGroupID.x; find_rows(tile, expert); tile += n_groups().x) {
    float totals[32];
    [[unroll]] for (uint i = 0; i < 32u; ++i) totals[i] = 0.0;
    for (uint l = 0; l < min(kLanes, n_blocks()); ++l) {
      float sums[32];
      [[unroll]] for (uint i = 0; i < 32u; ++i) sums[i] = 0.0;
      for (uint block = l; block < n_blocks(); block += kLanes) {
        barrier();
        fetch(expert, block);
        barrier();
        for (uint q = 0; q < 8u; ++q) {
          vec4 x[4];
          [[unroll]] for (uint r = 0; r < 4u; ++r) x[r] = x_quads[(down() + r * kDown) * kQuads + q];
          [[unroll]] for (uint o = 0; o < 8u; ++o) {
            const vec4 w = w_quads[(across() + o * kAcross) * kQuads + q];
            [[unroll]] for (uint r = 0; r < 4u; ++r) sums[o * 4u + r] = dot_on(w, x[r], sums[o * 4u + r]);
          }
        }
      }
      [[unroll]] for (uint i = 0; i < 32u; ++i) totals[i] += sums[i];
    }
    store_tile(totals);
  }
}
