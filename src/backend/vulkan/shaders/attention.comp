#version 460
#extension GL_GOOGLE_include_directive : require
// Attention of one head of one row over its sequence's extents (graph/extent.h). 64 threads: each scores one cell of a
// page, then owns columns of V. A page's softmax starts from nothing and is merged in page order, so a row has the same
// bits whatever else the step computes. Tensors: q, K, V, positions, sequences, extents, counts, ends, hidden_first,
// hidden, head_terms, out. Params: heads, K/V heads, k_dim, v_dim, scale, softcap, window, extents of a
// sequence, bytes of a K cell, of a V cell, whether there are sinks, whether windows are chunks, alibi, distances of the
// bias (0: there is none).
#include "common.glsl"
#include "unpack.glsl"
#include "activations.glsl"
const uint kCells = 64, kThreads = kCells;
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kKType = 0;
layout(constant_id = 1) const uint kVType = 0;
layout(constant_id = 2) const uint kColumns = 4;  // Of V, per thread.
layout(constant_id = 3) const uint kKeyDim = 64;
shared float query[kKeyDim];
shared float scores[kCells];
#include "reduce.glsl"

void attend(uint row, uint head) {
  const uint t = thread();
  const uint n_heads = param(0), n_kv = param(1), k_dim = param(2), v_dim = param(3), kv_head = head / (n_heads / n_kv);
  Floats q = Floats(address(0) + (uint64_t(row) * n_heads + head) * k_dim * 4u);
  barrier();
  for (uint i = t; i < k_dim; i += kCells) query[i] = q.f[i];
  const int position = ints(3).i[row], sequence = ints(4).i[row], end = ints(7).i[row], hidden = ints(8).i[row];
  const int window = int(param(6));
  const int first = window == 0 ? -0x7fffffff : param(11) != 0u ? position - position % window : position - window + 1;
  const uint n_power = 1u << findMSB(n_heads);  // Heads whose slopes are whole steps.
  const float slope_step = head < n_power ? float(head + 1u) : float(head - n_power) + 0.5;
  const float slope = param_float(12) == 0.0 ? 0.0 : exp2(-param_float(12) * slope_step / float(n_power));
  const int n_extents = ints(6).i[sequence];
  Ints extents = Ints(address(5) + uint64_t(sequence) * param(7) * 24u);
  barrier();

  float top = kLowest, sum = 0.0, acc[kColumns];
  for (uint c = 0; c < kColumns; ++c) acc[c] = 0.0;
  for (int e = 0; e < n_extents; ++e) {
    const uint mask_low = uint(extents.i[e * 6]), mask_high = uint(extents.i[e * 6 + 1]);
    const int page = extents.i[e * 6 + 2], base = extents.i[e * 6 + 3], divisor = extents.i[e * 6 + 4];
    const int offset = extents.i[e * 6 + 5];
    uint visible = (t < 32u ? mask_low >> t : mask_high >> (t - 32u)) & 1u;
    const int cell_position = (int(t) + offset) / divisor + base;
    if (cell_position >= end || cell_position < first) visible = 0u;
    if (hidden >= 0) {
      Ints list = ints(9);
      for (int h = hidden; list.i[h * 4] == int(row); ++h)
        if (list.i[h * 4 + 1] == page && (uint(list.i[h * 4 + 2 + int(t / 32u)]) >> (t % 32u) & 1u) != 0u) visible = 0u;
    }
    const uint64_t cell = uint64_t(page) * kCells + t;
    float score = kLowest;
    if (visible != 0u) {
      const uint64_t k = address(1) + cell * param(8);
      score = 0.0;
      if (kKType > kBF16) {
        for (uint first = 0; first < k_dim; first += 16u) {
          vec4 v[4];
          unpack16(kKType, k, (kv_head * k_dim + first) / 16u, n_kv * k_dim, v);
          for (uint i = 0; i < 16u; ++i) score = fma(query[first + i], v[i / 4u][i % 4u], score);
        }
      } else if (kKType != kF32 && kKeyDim % 2u == 0u) {
        Words pairs = Words(k + kv_head * k_dim * 2u);
        for (uint i = 0; i < k_dim / 2u; ++i) {
          const vec2 two = two_halves(kKType, pairs.w[i]);
          score = fma(query[2u * i + 1u], two.y, fma(query[2u * i], two.x, score));
        }
      } else {
        for (uint i = 0; i < k_dim; ++i) score = fma(query[i], float_at(kKType, k, kv_head * k_dim + i), score);
      }
      score *= param_float(4);
      if (param_float(5) != 0.0) score = param_float(5) * tanh_of(score / param_float(5));
      const int away = abs(position - cell_position);
      score -= slope * float(away);
      if (param(13) != 0u) score += floats(10).f[head * param(13) + min(uint(away), param(13) - 1u)];
    }
    const float page_top = reduce(score, true);
    if (page_top == kLowest) continue;  // No cell of this page is seen; the same for all threads.
    const float weight = visible != 0u ? exp(score - page_top) : 0.0;
    scores[t] = weight;
    const float page_sum = reduce(weight, false);
    const float new_top = max(top, page_top);
    const float keep = exp(top - new_top), take = exp(page_top - new_top);
    sum = sum * keep + page_sum * take;
    for (uint c = 0; c < kColumns; ++c) {
      const uint column = c * kCells + t;
      float part = 0.0;
      if (column < v_dim)
        for (uint j = 0; j < kCells; ++j)
          if (scores[j] != 0.0)
            part = fma(scores[j], cached_at(kVType, address(2) + (uint64_t(page) * kCells + j) * param(9), kv_head * v_dim + column), part);
      acc[c] = acc[c] * keep + part * take;
    }
    top = new_top;
    barrier();
  }
  if (param(10) != 0u && sum > 0.0) sum += exp(floats(10).f[head] - top);
  Floats result = Floats(address(11) + (uint64_t(row) * n_heads + head) * v_dim * 4u);
  for (uint c = 0; c < kColumns; ++c) {
    const uint column = c * kCells + t;
    if (column < v_dim) result.f[column] = sum > 0.0 ? acc[c] / sum : 0.0;
  }
}

void main() {
  for (uint row = gl_WorkGroupID.y; row < n_rows(); row += gl_NumWorkGroups.y) attend(row, gl_WorkGroupID.x);
}
