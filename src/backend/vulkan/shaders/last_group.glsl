// Which of a launch's workgroups is the last to come to an end: it goes on with what all of them have left, without a phase in
// between. Behind the rows of such a dispatch stands a word that counts them (Launch::counts_groups), 0 between steps.

// What workgroups leave each other goes through the device's own memory, not through what one of them keeps of it.
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer SharedFloats { float f[]; };
shared bool is_last;

// For all threads of each of the launch's `n` workgroups, once.
bool is_last_group(uint n) {
  memoryBarrierBuffer();
  barrier();
  if (gl_LocalInvocationIndex == 0u) {
    memoryBarrierBuffer();
    is_last = atomicAdd(Words(push.step).w[4], 1u) + 1u == n;
    if (is_last) Words(push.step).w[4] = 0u;
    memoryBarrierBuffer();
  }
  barrier();
  memoryBarrierBuffer();
  return is_last;
}
