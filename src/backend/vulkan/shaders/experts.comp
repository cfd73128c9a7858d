#version 460
#extension GL_GOOGLE_include_directive : require
// The small ops of a mixture of experts, a thread an output row (top_k, weights) or element (sum).
// top_k: x -> ids. weights: logits, ids -> weights. sum: x, weights -> out. Tensors: a, b, out. Params: columns, k,
// normalise, scale.
#include "common.glsl"
#include "elementary.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kOp = 0;  // 0 top_k, 1 weights, 2 sum

void top_k(uint row) {
  const uint n = param(0), k = param(1);
  Floats x = Floats(address(0) + uint64_t(row) * n * 4u);
  int last = -1;
  float last_value = 0.0;
  for (uint j = 0; j < k; ++j) {
    int best = -1;
    float best_value = 0.0;
    for (int i = 0; i < int(n); ++i) {
      const float value = is_nan(x.f[i]) ? -infinity() : x.f[i];
      const bool taken = last >= 0 && (value > last_value || (value == last_value && i <= last));
      if (taken || (best >= 0 && value <= best_value)) continue;
      best = i;
      best_value = value;
    }
    last = best;
    last_value = best_value;
    ints(2).i[row * k + j] = last;
  }
}

void weights(uint row) {
  const uint n = param(0), k = param(1);
  Floats x = Floats(address(0) + uint64_t(row) * n * 4u), result = Floats(address(2) + uint64_t(row) * k * 4u);
  Ints ids = Ints(address(1) + uint64_t(row) * k * 4u);
  const bool chosen = param(2) != 0u;
  const uint count = chosen ? k : n;
  float top = kLowest, sum = 0.0;
  for (uint i = 0; i < count; ++i) top = max(top, x.f[chosen ? uint(ids.i[i]) : i]);
  for (uint i = 0; i < count; ++i) sum += exp(x.f[chosen ? uint(ids.i[i]) : i] - top);
  // Of nothing but minus infinity, zeros.
  const float factor = sum == 0.0 ? 0.0 : param_float(3) / sum;
  for (uint i = 0; i < k; ++i) result.f[i] = exp(x.f[ids.i[i]] - top) * factor;
}

void main() {
  const uint n = kOp == 2u ? n_rows() * param(0) : n_rows();
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * 64u) {
    if (kOp == 0u) top_k(i);
    if (kOp == 1u) weights(i);
    if (kOp == 2u) {
      const uint columns = param(0), k = param(1), row = i / columns;
      float sum = 0.0;
      for (uint j = 0; j < k; ++j)
        sum = fma(floats(0).f[(row * k + j) * columns + i % columns], floats(1).f[row * k + j], sum);
      floats(2).f[i] = sum;
    }
  }
}
