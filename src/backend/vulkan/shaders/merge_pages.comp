#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// What attention.comp left of each page, merged in the order of pages. A workgroup takes a head of a row. Tensors: parts,
// sequences, counts, sinks, out, codes. Params: heads, v_dim, extents of a sequence, whether there are sinks.
#include "common.glsl"
#include "rows.glsl"
#include "softmax_merge.glsl"
#include "store_codes.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kColumns = 1;  // A thread.
layout(constant_id = 1) const uint kFloats = 1;   // Whether the result is written,
layout(constant_id = 2) const uint kCodes = 0;    // ... and codes of it.
const int kAhead = 4;
shared float head_values[kColumns * 64u];

void main() {
  const uint v_dim = param(1), head = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
  for (uint at = gl_WorkGroupID.y; at < n_rows(); at += n_groups().y) {
    const uint row = row_at(at);
    const int n_extents = ints(2).i[ints(1).i[row]];
    const uint64_t first = (uint64_t(row) * param(0) + head) * param(2);
    Softmax all = Softmax(kLowest, 0.0);
    float values[kColumns];
    for (uint c = 0; c < kColumns; ++c) values[c] = 0.0;
    // The parts of kAhead pages are loaded before the first of them is needed.
    for (int first_e = 0; first_e < n_extents; first_e += kAhead) {
      float tops[kAhead], sums[kAhead], page_values[kAhead * kColumns];
      [[unroll]] for (int j = 0; j < kAhead; ++j) {
        const int e = min(first_e + j, min(n_extents, int(param(2))) - 1);
        Floats part = Floats(address(0) + (first + e) * (v_dim + 2u) * 4u);
        tops[j] = first_e + j < n_extents ? part.f[0] : kLowest;
        sums[j] = part.f[1];
        [[unroll]] for (uint c = 0; c < kColumns; ++c)
          page_values[j * kColumns + c] = part.f[2u + min(c * 64u + t, v_dim - 1u)];
      }
      [[unroll]] for (int j = 0; j < kAhead; ++j) {
        if (tops[j] == kLowest) continue;  // No cell of this page is seen.
        const vec2 factors = merge_factors(all, tops[j]);
        all = merged(all, Softmax(tops[j], sums[j]), factors);
        [[unroll]] for (uint c = 0; c < kColumns; ++c)
          values[c] = merged_value(values[c], page_values[j * kColumns + c], factors);
      }
    }
    const bool has_sinks = param(3) != 0u;
    const float sum = whole_sum(all, has_sinks ? floats(3).f[head] : 0.0, has_sinks);
    Floats result = Floats(address(4) + (uint64_t(row) * param(0) + head) * v_dim * 4u);
    for (uint c = 0; c < kColumns; ++c) {
      const uint column = c * 64u + t;
      if (column >= v_dim) continue;
      const float value = divided(values[c], sum);
      if (kFloats != 0u) result.f[column] = value;
      if (kCodes != 0u) head_values[column] = value;
    }
    if (kCodes == 0u) continue;
    barrier();
    for (uint block = t; block < v_dim / kBlock; block += 64u) {
      vec4 v[kBlock / 4];
      for (uint j = 0; j < kBlock; ++j) v[j / 4u][j % 4u] = head_values[block * kBlock + j];
      const uint columns = param(0) * v_dim;
      store_codes(address(5) + uint64_t(row) * code_row_bytes(columns), columns, (head * v_dim) / kBlock + block, v);
    }
    barrier();
  }
}
