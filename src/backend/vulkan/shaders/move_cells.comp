#version 460
#extension GL_GOOGLE_include_directive : require
// Cells to other cells, one after another: a thread owns four elements of all cells (two pairs that turn, or four that
// do not; of quantised caches whole heads) and makes all moves of them in order, so no thread waits for another. Tensors: cache, from, to, deltas,
// frequencies. Params: head_dim, heads, bytes of a cell, n_rot (0: nothing turns), neox, words of a cell.
#include "common.glsl"
#include "rows.glsl"
#include "unpack.glsl"
#include "pack.glsl"
#include "turns.glsl"
#include "hadamard.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kType = 0;
layout(constant_id = 1) const uint kTurns = 0;
layout(constant_id = 2) const uint kUnit = 64;  // Elements of a thread, of a quantised cache.
layout(constant_id = 3) const uint kHadamard = 0;  // The block of the keys' rotation; 0: none.

vec2 load_two(uint64_t row, uint i) { return vec2(float_at(kType, row, i), float_at(kType, row, i + 1u)); }

// To or from Hadamard rotations of keys, if the cache has these.
void rotate(inout float x[kUnit]) {
  for (uint width = 1; width < kHadamard; width *= 2u)
    for (uint i = 0; i < kUnit / 2u; ++i) {
      const uvec2 at = hadamard_pair(i, width);
      const float a = x[at.x], b = x[at.y];
      x[at.x] = a + b;
      x[at.y] = a - b;
    }
  if (kHadamard > 0u)
    for (uint i = 0; i < kUnit; ++i) x[i] *= hadamard_scale(kHadamard);
}

void move_blocks(uint unit) {
  const uint head_dim = param(0), n_rot = param(3), half_rot = n_rot / 2u;
  const bool neox = param(4) != 0u;
  if (unit * kUnit >= head_dim * param(1)) return;
  const uint unit_bytes = kUnit / kPair * pair_bytes(kType);
  for (uint i = 0; i < n_rows(); ++i) {
    const uint m = row_at(i);
    const int delta = ints(3).i[m];
    const uint64_t source = address(0) + uint64_t(ints(1).i[m]) * param(2) + unit * unit_bytes;
    const uint64_t target = address(0) + uint64_t(ints(2).i[m]) * param(2) + unit * unit_bytes;
    if (delta == 0) {
      for (uint i = 0; i < unit_bytes / 4u; ++i) Words(target).w[i] = Words(source).w[i];
      continue;
    }
    float x[kUnit];
    for (uint i = 0; i < kUnit; ++i) x[i] = cached_at(kType, source, i);
    rotate(x);
    for (uint head = 0; head < kUnit; head += head_dim)
      for (uint u = 0; u < half_rot; ++u) {
        const uint a = head + (neox ? u : 2u * u), b = neox ? a + half_rot : a + 1u;
        const vec2 t = turned(vec2(x[a], x[b]), cos_sin(Longs(address(4)).l[u], delta));
        x[a] = t.x;
        x[b] = t.y;
      }
    rotate(x);
    for (uint first = 0; first < kUnit; first += kPair) {
      float pair[kPair];
      for (uint i = 0; i < kPair; ++i) pair[i] = x[first + i];
      store_pair(kType, target + first / kPair * pair_bytes(kType), pair);
    }
  }
}

void main() {
  if (kTurns != 0u && kType > kBF16) {
    move_blocks(gl_GlobalInvocationID.x);
    return;
  }
  const uint cell_bytes = param(2), unit = gl_GlobalInvocationID.x;
  const uint64_t cache = address(0);
  if (kTurns == 0u) {  // Plain words.
    if (unit >= param(5)) return;
    for (uint i = 0; i < n_rows(); ++i) {
      const uint m = row_at(i);
      Words(cache + uint64_t(ints(2).i[m]) * cell_bytes).w[unit] = Words(cache + uint64_t(ints(1).i[m]) * cell_bytes).w[unit];
    }
    return;
  }
  const uint head_dim = param(0), n_rot = param(3), half_rot = n_rot / 2u;
  const uint per_head = head_dim / 4u, head = unit / per_head, u = unit % per_head;
  if (head >= param(1)) return;
  const bool turns = u < n_rot / 4u, neox = param(4) != 0u;
  const uvec2 at = head * head_dim + two_pairs(u, half_rot, neox);
  for (uint i = 0; i < n_rows(); ++i) {
    const uint m = row_at(i);
    const int from = ints(1).i[m], to = ints(2).i[m], delta = ints(3).i[m];
    const uint64_t source = cache + uint64_t(from) * cell_bytes, target = cache + uint64_t(to) * cell_bytes;
    vec2 a = load_two(source, at.x), b = load_two(source, at.y);
    if (turns && delta != 0) {
      Longs frequencies = Longs(address(4));
      turn_two_pairs(neox, cos_sin(frequencies.l[2u * u], delta), cos_sin(frequencies.l[2u * u + 1u], delta), a, b);
    }
    store_two(kType, target, at.x, a);
    store_two(kType, target, at.y, b);
  }
}
