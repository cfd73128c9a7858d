// The sum or the largest of what the threads of a workgroup have, for each of them and in one fixed order. Needs kThreads,
// a multiple of 64. With SHUFFLES threads of a subgroup exchange values without memory in between.
#include "threads.glsl"
shared float partials[kThreads];

float joined(float a, float b, bool largest) { return largest ? max(a, b) : a + b; }

float reduce(float mine, bool largest) {
  const uint t = thread();
#ifdef SHUFFLES
  for (uint other = 1; other < 8u; other *= 2u) mine = joined(mine, subgroupShuffleXor(mine, other), largest);
  barrier();
  if (t % 8u == 0u) partials[t / 8u] = mine;
  barrier();
  float all = partials[0];
  for (uint i = 1; i < kThreads / 8u; ++i) all = joined(all, partials[i], largest);
  return all;
#else
  barrier();
  partials[t] = mine;
  for (uint half_n = kThreads / 2u; half_n > 0u; half_n /= 2u) {
    barrier();
    if (t < half_n) partials[t] = joined(partials[t], partials[t + half_n], largest);
  }
  barrier();
  return partials[0];
#endif
}
