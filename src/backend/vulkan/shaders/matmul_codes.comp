#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// matmul.comp for quantised weights on devices with dot products of bytes: x comes as codes (quantise.comp). Tensors:
// weight, codes of x, bias, ids, out. Params: as there.
#include "common.glsl"
#include "unpack.glsl"
#include "products.glsl"
#include "code_blocks.glsl"
layout(constant_id = 0) const uint kType = 0;
layout(constant_id = 1) const uint kRows = 1;
#include "lanes.glsl"

void load_codes(uint64_t x, uint columns, uint block, out uvec4 low, out uvec4 high, out uvec2 scale) {
  low = Codes(x).c[2u * block];
  high = Codes(x).c[2u * block + 1u];
  scale = Scales(x + columns).s[block];
}

void main() {
  const uint columns = param(1), n = n_rows(), step_rows = rows_at_a_time();
  const uint64_t x_bytes = code_row_bytes(columns), x_base = address(1);
  for (uint first = gl_WorkGroupID.y * step_rows; first < n; first += n_groups().y * step_rows) {
    const uint count = min(step_rows, n - first), expert = expert_of(first);
    const uint64_t rows[2] = uint64_t[](weight_row(expert, output_of(0)), weight_row(expert, output_of(1)));
    float sums[kSums];
    for (uint i = 0; i < kSums; ++i) sums[i] = 0.0;
    for (uint block = lane(); block < n_blocks(); block += kLanes) {
      // The codes of a single row are on their way while weights are unpacked. Those of eight take too many registers.
      uvec4 x_low, x_high;
      uvec2 x_scale;
      if (kRows == 1u) load_codes(x_base + row_of_x(first, 0u) * x_bytes, columns, block, x_low, x_high, x_scale);
      uvec4 low[2], high[2];
      vec2 scales[2], mins[2];
      [[unroll]] for (uint i = 0; i < 2u; ++i) {
        codes16(kType, rows[i], 2u * block, low[i], scales[i].x, mins[i].x);
        codes16(kType, rows[i], 2u * block + 1u, high[i], scales[i].y, mins[i].y);
      }
      [[unroll]] for (uint r = 0; r < kRows; ++r)
        if (r < count) {
          if (kRows > 1u) load_codes(x_base + row_of_x(first, r) * x_bytes, columns, block, x_low, x_high, x_scale);
          [[unroll]] for (uint i = 0; i < 2u; ++i) {
            const ivec2 products = ivec2(dot16(low[i], x_low), dot16(high[i], x_high));
            sums[2u * r + i] = add_block(kType, products, scales[i], mins[i], x_scale, sums[2u * r + i]);
          }
        }
    }
    store_lanes(sums, first, count);
  }
  make_tail();
}
