#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// x times the transposed weight, for few rows: each weight is unpacked once for all of them. Tensors: weight, x, bias, ids,
// out. Params: outputs, columns, bytes of a weight's row, has bias, ids per row (0: no experts), x has a row for each id.
#include "common.glsl"
#include "unpack.glsl"
#include "products.glsl"
#include "float_blocks.glsl"
layout(constant_id = 0) const uint kType = 0;
layout(constant_id = 1) const uint kRows = 1;
#include "lanes.glsl"

void main() {
  const uint columns = param(1), n = n_rows(), step_rows = rows_at_a_time();
  for (uint first = gl_WorkGroupID.y * step_rows; first < n; first += n_groups().y * step_rows) {
    const uint count = min(step_rows, n - first), expert = expert_of(first);
    const uint64_t rows[2] = uint64_t[](weight_row(expert, output_of(0)), weight_row(expert, output_of(1)));
    float sums[kSums];
    for (uint i = 0; i < kSums; ++i) sums[i] = 0.0;
    for (uint block = lane(); block < n_blocks(); block += kLanes)
      for (uint part = 0; part < 2u; ++part) {
        const uint chunk = 2u * block + part;
        vec4 w0[4], w1[4];
        load_chunk(kType, rows[0], chunk, columns, w0);
        load_chunk(kType, rows[1], chunk, columns, w1);
        [[unroll]] for (uint r = 0; r < kRows; ++r)
          if (r < count) {
            vec4 x[4];
            load_chunk(kF32, address(1) + uint64_t(row_of_x(first, r)) * columns * 4u, chunk, columns, x);
            for (uint i = 0; i < 4u; ++i) {
              sums[2u * r] = dot_on(w0[i], x[i], sums[2u * r]);
              sums[2u * r + 1u] = dot_on(w1[i], x[i], sums[2u * r + 1u]);
            }
          }
      }
    store_lanes(sums, first, count);
  }
  make_tail();
}
