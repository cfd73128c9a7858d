#version 460
#extension GL_GOOGLE_include_directive : require
// Attention of rows over rows, of one head. A workgroup takes kRows rows of q, and keys in tiles of 64 that begin where the rows'
// own keys begin: rows that agree on that share each tile, others take their turn. The softmax is online. All sums are in an order
// that a row's keys alone decide, so its bits depend neither on its neighbours nor on kRows. Tensors: q, k, v, begins, ends, out.
// Params: heads, of k and v, k_dim, v_dim, scale. Words: keys.
#include "common.glsl"
#include "strided.glsl"
const uint kThreads = 64, kKeys = 64, kPart = 32, kQuads = kPart / 4, kStrands = 4;
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kRows = 1;     // Up to 16, a power of two.
layout(constant_id = 1) const uint kColumns = 1;  // Of v, per thread.
const uint kLanes = kThreads / kRows;             // That look for the largest score of a row.
shared vec4 key_part[kKeys * (kQuads + 1)];  // One more than needed, so that neighbours' keys spread over the banks.
shared vec4 query_part[kRows * kQuads];
shared vec4 weights[kRows * kKeys / 4];
shared float partials[kThreads];
shared float tops[kRows];
shared float factors[kRows];
shared int begins[kRows];
shared int ends[kRows];

float weight(uint i) { return weights[i / 4u][i % 4u]; }
void set_weight(uint i, float value) { weights[i / 4u][i % 4u] = value; }

// One order of additions, as one by one.
float dot_on(vec4 a, vec4 b, float sum) { return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum)))); }

void attend(uint first_row, uint head) {
  const uint t = gl_LocalInvocationID.x;
  const uint n_heads = param(0), n_kv = param(1), k_dim = param(2), v_dim = param(3), kv_head = head / (n_heads / n_kv);
  const uint n_row = min(kRows, n_rows() - first_row);
  const int n_keys = int(word(0));
  Floats q = Floats(address(0) + (uint64_t(first_row) * n_heads + head) * k_dim * 4u);
  barrier();
  if (t < kRows) {
    int begin = 0, end = 0;
    if (t < n_row) {
      begin = clamp(ints(3).i[first_row + t], 0, n_keys);
      end = clamp(ints(4).i[first_row + t], begin, n_keys);
    }
    begins[t] = begin;
    ends[t] = end;
    tops[t] = kLowest;
  }
  barrier();
  float acc[kRows * kColumns];
  for (uint i = 0; i < kRows * kColumns; ++i) acc[i] = 0.0;
  float sum = 0.0;  // For row t, if it exists.

  for (uint group = 0; group < kRows; ++group) {
    const int begin = begins[group];
    int last = begin;
    bool is_first = true;
    for (uint r = 0; r < kRows; ++r) {
      if (begins[r] != begin) continue;
      if (r < group) is_first = false;
      last = max(last, ends[r]);
    }
    if (!is_first) continue;
    for (int first = begin; first < last; first += int(kKeys)) {
      Floats k = Floats(address(1) + (uint64_t(first) * n_kv + kv_head) * k_dim * 4u);
      float scores[kRows];
      for (uint r = 0; r < kRows; ++r) scores[r] = 0.0;
      for (uint part = 0; part < k_dim; part += kPart) {
        barrier();
        for (uint i = t; i < kKeys * kPart; i += kThreads) {
          const uint key = i / kPart, column = part + i % kPart;
          float value = 0.0;
          if (column < k_dim && first + int(key) < last) value = k.f[key * n_kv * k_dim + column];
          key_part[key * (kQuads + 1u) + i % kPart / 4u][i % 4u] = value;
        }
        for (uint i = t; i < kRows * kPart; i += kThreads) {
          const uint row = i / kPart, column = part + i % kPart;
          float value = 0.0;
          if (column < k_dim && row < n_row) value = q.f[row * n_heads * k_dim + column];
          query_part[i / 4u][i % 4u] = value;
        }
        barrier();
        for (uint i = 0; i < kQuads; ++i) {
          const vec4 from_k = key_part[t * (kQuads + 1u) + i];
          for (uint r = 0; r < kRows; ++r) scores[r] = dot_on(query_part[r * kQuads + i], from_k, scores[r]);
        }
      }
      barrier();
      bool all_see = true;  // All of the tile.
      for (uint r = 0; r < kRows; ++r) {
        all_see = all_see && (r >= n_row || (begins[r] == begin && first + int(kKeys) <= ends[r]));
        const bool visible = begins[r] == begin && first + int(t) < ends[r];
        scores[r] = visible ? scores[r] * param_float(4) : kLowest;
        set_weight(r * kKeys + t, scores[r]);
      }
      barrier();
      float top = kLowest;
      for (uint i = t % kLanes; i < kKeys; i += kLanes) top = max(top, weight(t / kLanes * kKeys + i));
      partials[t] = top;
      barrier();
      if (t < kRows) {
        top = tops[t];
        for (uint i = 0; i < kLanes; ++i) top = max(top, partials[t * kLanes + i]);
        factors[t] = exp(tops[t] - top);
        tops[t] = top;
      }
      barrier();
      for (uint r = 0; r < kRows; ++r)
        set_weight(r * kKeys + t, scores[r] == kLowest ? 0.0 : exp(scores[r] - tops[r]));
      barrier();
      if (t < kRows * kStrands) {
        float strand = 0.0;
        for (uint i = t % kStrands; i < kKeys; i += kStrands) strand += weight(t / kStrands * kKeys + i);
        partials[t] = strand;
      }
      barrier();
      if (t < kRows) {
        const uint at = t * kStrands;
        sum = sum * factors[t] + ((partials[at] + partials[at + 1u]) + (partials[at + 2u] + partials[at + 3u]));
      }
      for (uint c = 0; c < kColumns; ++c) {
        const uint column = c * kThreads + t;
        if (column >= v_dim) continue;
        for (uint r = 0; r < kRows; ++r) acc[r * kColumns + c] *= factors[r];
        Floats v = Floats(address(2) + ((uint64_t(first) * n_kv + kv_head) * v_dim + column) * 4u);
        const uint stride = n_kv * v_dim;
        if (all_see) {
          for (uint j = 0; j < kKeys; j += 4u) {
            const vec4 from_v = vec4(v.f[j * stride], v.f[(j + 1u) * stride], v.f[(j + 2u) * stride], v.f[(j + 3u) * stride]);
            for (uint r = 0; r < kRows; ++r)
              acc[r * kColumns + c] = dot_on(weights[(r * kKeys + j) / 4u], from_v, acc[r * kColumns + c]);
          }
        } else {
          // Keys that a row does not see may have NaN.
          for (uint j = 0; j < kKeys && first + int(j) < last; ++j) {
            const float from_v = v.f[j * stride];
            for (uint r = 0; r < kRows; ++r)
              if (begins[r] == begin && first + int(j) < ends[r])
                acc[r * kColumns + c] = fma(weight(r * kKeys + j), from_v, acc[r * kColumns + c]);
          }
        }
      }
    }
  }
  barrier();
  if (t < kRows) factors[t] = sum;
  barrier();
  Floats result = Floats(address(5) + (uint64_t(first_row) * n_heads + head) * v_dim * 4u);
  for (uint c = 0; c < kColumns; ++c) {
    const uint column = c * kThreads + t;
    if (column >= v_dim) continue;
    for (uint r = 0; r < n_row; ++r)
      result.f[r * n_heads * v_dim + column] = factors[r] == 0.0 ? 0.0 : acc[r * kColumns + c] / factors[r];
  }
}

void main() {
  for (uint row = gl_WorkGroupID.y * kRows; row < n_rows(); row += n_groups().y * kRows) attend(row, gl_WorkGroupID.x);
}
