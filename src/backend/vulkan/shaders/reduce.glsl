// The sum or the maximum of the values of a workgroup's threads, for each thread. The order is fixed: eight
// neighbours at a time, then these results in sequence. Needs kThreads, a multiple of 64. With SHUFFLES threads of a subgroup exchange values
// without memory in between; the bits are the same.
#include "threads.glsl"
shared float partials[kThreads];

float joined(float a, float b, bool largest) { return largest ? max(a, b) : a + b; }

float reduce(float mine, bool largest) {
  const uint t = thread();
#ifdef SHUFFLES
  for (uint other = 1; other < 8u; other *= 2u) mine = joined(mine, subgroupShuffleXor(mine, other), largest);
  const bool has_eight = t % 8u == 0u;
  const uint eight = t / 8u;
#else
  const bool has_eight = t < kThreads / 8u;
  const uint eight = t;
  barrier();
  partials[t] = mine;
  barrier();
  if (has_eight) {
    float pairs[4];
    for (uint i = 0; i < 4u; ++i) pairs[i] = joined(partials[8u * t + 2u * i], partials[8u * t + 2u * i + 1u], largest);
    mine = joined(joined(pairs[0], pairs[1], largest), joined(pairs[2], pairs[3], largest), largest);
  }
#endif
  barrier();
  if (has_eight) partials[eight] = mine;
  barrier();
  float all = partials[0];
  for (uint i = 1; i < kThreads / 8u; ++i) all = joined(all, partials[i], largest);
  return all;
}
