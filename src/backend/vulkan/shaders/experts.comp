#version 460
#extension GL_GOOGLE_include_directive : require
// The small ops of a mixture of experts, a thread an output row (weights) or element (sum).
// weights: logits, ids -> weights. sum: x, weights -> out. Tensors: a, b, out. Params: columns, k, normalise, scale.
#include "common.glsl"
#include "elementary.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kOp = 0;  // 0 weights, 1 sum

uint expert(Ints ids, uint i, uint n) { return min(uint(ids.i[i]), n - 1u); }

void weights(uint row) {
  const uint n = param(0), k = param(1);
  Floats x = Floats(address(0) + uint64_t(row) * n * 4u), result = Floats(address(2) + uint64_t(row) * k * 4u);
  Ints ids = Ints(address(1) + uint64_t(row) * k * 4u);
  const bool chosen = param(2) != 0u;
  const uint count = chosen ? k : n;
  float top = -infinity(), sum = 0.0;
  for (uint i = 0; i < count; ++i) top = max(top, x.f[chosen ? expert(ids, i, n) : i]);
  if (top == -infinity()) top = 0.0;  // If all are minus infinity, the weights are zeros.
  for (uint i = 0; i < count; ++i) sum += exp(x.f[chosen ? expert(ids, i, n) : i] - top);
  const float factor = sum == 0.0 ? 0.0 : param_float(3) / sum;
  for (uint i = 0; i < k; ++i) result.f[i] = exp(x.f[expert(ids, i, n)] - top) * factor;
}

void main() {
  const uint n = kOp == 1u ? n_rows() * param(0) : n_rows();
  for (uint i = gl_GlobalInvocationID.x; i < n; i += n_groups().x * 64u) {
    if (kOp == 0u) weights(i);
    if (kOp == 1u) {
      const uint columns = param(0), k = param(1), row = i / columns;
      float sum = 0.0;
      for (uint j = 0; j < k; ++j)
        sum = fma(floats(0).f[(row * k + j) * columns + i % columns], floats(1).f[row * k + j], sum);
      floats(2).f[i] = sum;
    }
  }
}
