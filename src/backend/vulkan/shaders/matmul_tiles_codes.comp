#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// matmul_codes.comp for many rows, in tiles. Weights are unpacked into shared memory as bytes. Tensors, params: as there.
#include "common.glsl"
#include "unpack.glsl"
#include "products.glsl"
#include "code_blocks.glsl"
#include "tiles.glsl"
const uint kHalves = 2 + 1;  // Of a block, and one that spreads rows over the banks.
shared uvec4 w_codes[kTileOutputs * kHalves];
shared uvec4 x_codes[kTileRows * kHalves];
shared float w_scales[kTileOutputs * 2];
shared float w_mins[kTileOutputs * 2];
shared uvec2 x_scales[kTileRows];

void fetch(uint expert, uint block) {
  for (uint i = gl_LocalInvocationID.x; i < kTileOutputs * 2u; i += kThreads) {
    uvec4 codes;
    float scale, m;
    codes16(kType, weight_row(expert, tile_output(i / 2u)), 2u * block + i % 2u, codes, scale, m);
    w_codes[i / 2u * kHalves + i % 2u] = codes;
    w_scales[i] = scale;
    if (has_min(kType)) w_mins[i] = m;
  }
  const uint columns = param(1);
  for (uint i = gl_LocalInvocationID.x; i < kTileRows * 2u; i += kThreads) {
    const uint64_t x = address(1) + uint64_t(x_rows[i / 2u]) * code_row_bytes(columns);
    x_codes[i / 2u * kHalves + i % 2u] = Codes(x).c[2u * block + i % 2u];
    if (i % 2u == 0u) x_scales[i / 2u] = Scales(x + columns).s[block];
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
        uvec4 low[4], high[4];
        uvec2 x_scale[4];
        [[unroll]] for (uint r = 0; r < 4u; ++r) {
          const uint row = down() + r * kDown;
          low[r] = x_codes[row * kHalves];
          high[r] = x_codes[row * kHalves + 1u];
          x_scale[r] = x_scales[row];
        }
        [[unroll]] for (uint o = 0; o < 8u; ++o) {
          const uint at = across() + o * kAcross;
          const uvec4 w_low = w_codes[at * kHalves], w_high = w_codes[at * kHalves + 1u];
          const vec2 scales = vec2(w_scales[2u * at], w_scales[2u * at + 1u]);
          const vec2 mins = has_min(kType) ? vec2(w_mins[2u * at], w_mins[2u * at + 1u]) : vec2(0.0);
          [[unroll]] for (uint r = 0; r < 4u; ++r) {
            const ivec2 products = ivec2(dot16(w_low, low[r]), dot16(w_high, high[r]));
            sums[o * 4u + r] = add_block(kType, products, scales, mins, x_scale[r], sums[o * 4u + r]);
          }
        }
      }
      [[unroll]] for (uint i = 0; i < 32u; ++i) totals[i] += sums[i];
    }
    store_tile(totals);
  }
}
