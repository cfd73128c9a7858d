#version 460
#extension GL_GOOGLE_include_directive : require
// x times the transposed weight. A workgroup makes 16 outputs of kTile rows; 8 threads share an output and take every
// eighth chunk of 16 columns of it, and their sums are added in one fixed order. So a row has the same bits whatever
// kTile is (1 for few rows, more for many: a weight is then unpacked once for all of them, and x waits in shared memory).
// Tensors: weight, x, bias, ids, out. Params: outputs, columns, bytes of a weight's row, has bias, ids per row (0: no
// experts), x has a row for each id.
#include "common.glsl"
#include "unpack.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kType = 0;
layout(constant_id = 1) const uint kTile = 1;
#include "outputs.glsl"
shared vec4 tile[kTile * kLanes * 4];

// One order of additions, wherever it is used.
float dot_on(vec4 w, vec4 x, float sum) { return fma(w.w, x.w, fma(w.z, x.z, fma(w.y, x.y, fma(w.x, x.x, sum)))); }

void main() {
  const uint outputs = param(0), columns = param(1), n_ids = param(4);
  const uint lane = thread() % kLanes, slot = thread() / kLanes;
  const uint n = n_rows(), chunks = (columns + 15u) / 16u;
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
      vec4 w[4] = vec4[](vec4(0), vec4(0), vec4(0), vec4(0));
      if (chunk < chunks) unpack16(kType, weight, chunk, columns, w);
      if (kTile == 1u) {
        if (chunk < chunks) {
          vec4 xs[4];
          unpack16(kF32, address(1) + uint64_t(x_row) * columns * 4u, chunk, columns, xs);
          for (uint i = 0; i < 4u; ++i) sums[0] = dot_on(w[i], xs[i], sums[0]);
        }
        continue;
      }
      barrier();
      for (uint i = thread(); i < kTile * kLanes * 16u; i += 128u) {
        const uint r = i / (kLanes * 16u), column = begin * 16u + i % (kLanes * 16u);
        float value = 0.0;
        if (first + r < n && column < columns) value = Floats(address(1) + uint64_t(first + r) * columns * 4u).f[column];
        tile[i / 4u][i % 4u] = value;
      }
      barrier();
      for (uint r = 0; r < kTile; ++r) {
        float sum = sums[r];
        for (uint i = 0; i < 4u; ++i) {
          const vec4 x = tile[(r * kLanes + lane) * 4u + i];
          sum = dot_on(w[i], x, sum);
        }
        sums[r] = sum;
      }
    }
    store_outputs(sums, first, first_output);
  }
}
