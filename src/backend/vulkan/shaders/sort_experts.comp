#version 460
#extension GL_GOOGLE_include_directive : require
// Pairs of a row and an expert, sorted by expert, and tiles of at most kTileRows pairs of one expert each. One workgroup.
// Tensors: ids, pairs, tiles (the first holds their number; then expert, first pair, pairs). Params: experts.
#include "common.glsl"
#include "blocks.glsl"
const uint kThreads = 256, kEach = 4;  // Experts at most: kThreads * kEach.
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint kTileRows = 32;
shared uint counts[kThreads * kEach];
shared uvec2 sums[kThreads];  // Pairs and tiles.

uint tiles_of(uint pairs) { return (pairs + kTileRows - 1u) / kTileRows; }

void main() {
  const uint t = gl_LocalInvocationID.x, experts = param(0), n = n_rows();
  for (uint e = t; e < kThreads * kEach; e += kThreads) counts[e] = 0u;
  barrier();
  for (uint i = t; i < n; i += kThreads) atomicAdd(counts[min(uint(ints(0).i[i]), experts - 1u)], 1u);
  barrier();
  uvec2 mine = uvec2(0u);
  for (uint j = 0; j < kEach; ++j) {
    const uint count = counts[t * kEach + j];
    mine += uvec2(count, tiles_of(count));
  }
  sums[t] = mine;
  for (uint step = 1u; step < kThreads; step *= 2u) {
    barrier();
    const uvec2 before = t >= step ? sums[t - step] : uvec2(0u);
    barrier();
    sums[t] += before;
  }
  barrier();
  Codes tiles = Codes(address(2));
  if (t == kThreads - 1u) tiles.c[0] = uvec4(sums[t].y, 0u, 0u, 0u);
  uvec2 at = sums[t] - mine;
  for (uint j = 0; j < kEach; ++j) {
    const uint e = t * kEach + j, count = counts[e];
    for (uint done = 0; done < count; done += kTileRows)
      tiles.c[1u + at.y++] = uvec4(e, at.x + done, min(kTileRows, count - done), 0u);
    counts[e] = at.x;  // From now on where its next pair goes.
    at.x += count;
  }
  barrier();
  // In whichever order pairs of an expert come, each is computed alone.
  for (uint i = t; i < n; i += kThreads)
    ints(1).i[atomicAdd(counts[min(uint(ints(0).i[i]), experts - 1u)], 1u)] = int(i);
}
