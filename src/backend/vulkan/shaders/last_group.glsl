// Which of a launch's workgroups is the last to come to an end: it goes on with what all of them have left, without a phase in
// between. Behind the sizes of such a dispatch stands a word that counts them (Launch::words, 0 between steps).

// What workgroups leave each other goes through the device's own memory, not through what one of them keeps of it.
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer SharedFloats { float f[]; };
shared uint groups_before;

// For all threads of a workgroup, once.
bool is_last_group() {
  const uint n = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_NumWorkGroups.z;
  memoryBarrierBuffer();
  barrier();
  if (gl_LocalInvocationIndex == 0u) {
    groups_before = atomicAdd(Words(push.step).w[4], 1u);
    if (groups_before + 1u == n) Words(push.step).w[4] = 0u;
  }
  barrier();
  memoryBarrierBuffer();
  return groups_before + 1u == n;
}
