#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
// matmul_tiles_codes.comp by cooperative matrices: a subgroup multiplies 2 by 2 of them, and its threads add up the
// blocks' sums, which are exact, where they hold them: the bits are the same. Tensors, params: as in matmul.comp.
#include "common.glsl"
#include "unpack.glsl"
#include "products.glsl"
#include "code_blocks.glsl"
#include "tiles.glsl"
layout(constant_id = 5) const uint kM = 16;  // Outputs, rows and columns of a product of two matrices.
layout(constant_id = 6) const uint kN = 16;
layout(constant_id = 7) const uint kK = 32;
layout(constant_id = 8) const uint kSubgroup = 32;
const uint kDeep = kBlock / kK;                  // Products that make a block.
const uint kEach = kM * kN / kSubgroup;          // Sums of a product that a thread holds.
const uint kSums = 4 * kEach, kSubgroupsDown = kTileRows / (2 * kN);
const uint kGroupThreads = kTileOutputs / (2 * kM) * kSubgroupsDown * kSubgroup;

// A block's codes are kWords pairs of words. Where a product takes a block at once and its halves have scales of their
// own, each half of a weight stands with zeros for the other.
const uint kWords = 4;
const bool kTwoScales = HAS_TWO_SCALES(kType);
const bool kApart = kTwoScales && kK > 16;
const uint kWeightPitch = (kApart ? 2 * kWords : kWords) + 2, kRowPitch = kWords + 2;  // Rows spread over the banks.
shared uvec2 w_codes[kTileOutputs * kWeightPitch];
shared uvec2 x_codes[kTileRows * kRowPitch];
shared vec2 w_scales[kTileOutputs];
shared vec2 w_mins[kTileOutputs];
shared uvec2 x_scales[kTileRows];
shared int places[kM * kN];

void put(uint at, uvec4 codes) {
  w_codes[at] = codes.xy;
  w_codes[at + 1u] = codes.zw;
}

void fetch(uint expert, uint block) {
  for (uint i = gl_LocalInvocationID.x; i < kTileOutputs * 2u; i += kGroupThreads) {
    const uint o = i / 2u, half_block = i % 2u;
    uvec4 codes;
    float scale, m;
    codes16(kType, weight_row(expert, tile_output(o)), 2u * block + half_block, codes, scale, m);
    put(o * kWeightPitch + (kApart ? 6u : 2u) * half_block, codes);
    if (kApart) put(o * kWeightPitch + (half_block == 0u ? 2u : 4u), uvec4(0u));
    w_scales[o][half_block] = scale;
    if (has_min(kType)) w_mins[o][half_block] = m;
  }
  const uint columns = param(1);
  for (uint i = gl_LocalInvocationID.x; i < kTileRows * 2u; i += kGroupThreads) {
    const uint r = i / 2u, half_block = i % 2u;
    const uint64_t x = address(1) + uint64_t(x_rows[r]) * code_row_bytes(columns);
    const uvec4 codes = Codes(x).c[2u * block + half_block];
    x_codes[r * kRowPitch + 2u * half_block] = codes.xy;
    x_codes[r * kRowPitch + 2u * half_block + 1u] = codes.zw;
    if (half_block == 0u) x_scales[r] = Scales(x + columns).s[block];
  }
}

void main() {
  // Which thread holds what of a matrix is the device's choice: it is asked with a matrix of places.
  for (uint i = gl_LocalInvocationID.x; i < kM * kN; i += kGroupThreads) places[i] = int(i);
  barrier();
  coopmat<int, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator> held;
  coopMatLoad(held, places, 0, kN, gl_CooperativeMatrixLayoutRowMajor);
  const uint first_output = gl_SubgroupID / kSubgroupsDown * 2u * kM;
  const uint first_row = gl_SubgroupID % kSubgroupsDown * 2u * kN;
  uint outputs[2 * kEach], rows[2 * kEach];
  [[unroll]] for (uint j = 0; j < 2u; ++j)
    [[unroll]] for (uint i = 0; i < kEach; ++i) {
      outputs[j * kEach + i] = first_output + j * kM + uint(held[i]) / kN;
      rows[j * kEach + i] = first_row + j * kN + uint(held[i]) % kN;
    }

  uint expert;
  for (uint tile = gl_WorkGroupID.x; find_rows(tile, expert); tile += n_groups().x) {
    float totals[kSums];
    [[unroll]] for (uint i = 0; i < kSums; ++i) totals[i] = 0.0;
    for (uint l = 0; l < min(kLanes, n_blocks()); ++l) {
      float sums[kSums];
      [[unroll]] for (uint i = 0; i < kSums; ++i) sums[i] = 0.0;
      for (uint block = l; block < n_blocks(); block += kLanes) {
        barrier();
        fetch(expert, block);
        barrier();
        uvec2 x_scale[2 * kEach];
        [[unroll]] for (uint i = 0; i < 2u * kEach; ++i) x_scale[i] = x_scales[rows[i]];
        coopmat<int8_t, gl_ScopeSubgroup, kK, kN, gl_MatrixUseB> x[2 * kDeep];
        [[unroll]] for (uint n = 0; n < 2u; ++n)
          [[unroll]] for (uint k = 0; k < kDeep; ++k)
            coopMatLoad(x[n * kDeep + k], x_codes, (first_row + n * kN) * kRowPitch + k * (kK / 8u), kRowPitch,
                        gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint m = 0; m < 2u; ++m) {
          coopmat<int, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator> low[2], high[2];
          [[unroll]] for (uint n = 0; n < 2u; ++n) {
            low[n] = coopmat<int, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator>(0);
            high[n] = coopmat<int, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator>(0);
          }
          [[unroll]] for (uint k = 0; k < (kApart ? 2u * kDeep : kDeep); ++k) {
            coopmat<int8_t, gl_ScopeSubgroup, kM, kK, gl_MatrixUseA> w;
            coopMatLoad(w, w_codes, (first_output + m * kM) * kWeightPitch + k * (kK / 8u), kWeightPitch,
                        gl_CooperativeMatrixLayoutRowMajor);
            const bool is_high = kTwoScales && (kApart ? k : 2u * k) >= kDeep;
            [[unroll]] for (uint n = 0; n < 2u; ++n) {
              const uint at = n * kDeep + k % kDeep;
              if (is_high) high[n] = coopMatMulAdd(w, x[at], high[n]);
              else low[n] = coopMatMulAdd(w, x[at], low[n]);
            }
          }
          [[unroll]] for (uint i = 0; i < kEach; ++i) {
            const uint o = outputs[m * kEach + i];
            const vec2 scales = w_scales[o], mins = has_min(kType) ? w_mins[o] : vec2(0.0);
            [[unroll]] for (uint n = 0; n < 2u; ++n) {
              const uint at = (m * 2u + n) * kEach + i;
              sums[at] = add_block(kType, ivec2(low[n][i], high[n][i]), scales, mins, x_scale[n * kEach + i], sums[at]);
            }
          }
        }
      }
      [[unroll]] for (uint i = 0; i < kSums; ++i) totals[i] += sums[i];
    }
    [[unroll]] for (uint n = 0; n < 2u; ++n)
      [[unroll]] for (uint i = 0; i < kEach; ++i) {
        const uint row = out_rows[rows[n * kEach + i]];
        if (row == kNowhere) continue;
        [[unroll]] for (uint m = 0; m < 2u; ++m)
          store_output(row, tile_output(outputs[m * kEach + i]), totals[(m * 2u + n) * kEach + i]);
      }
  }
}
