// A thread's number in its workgroup. With SHUFFLES all subgroups are full (pipelines.cpp asks for that) and threads are
// counted along them, so that neighbours by number are neighbours in a subgroup whatever order the device makes them in.
#ifdef SHUFFLES
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
uint thread() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }
#else
uint thread() { return gl_LocalInvocationID.x; }
#endif
