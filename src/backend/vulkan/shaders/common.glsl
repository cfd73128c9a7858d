// What every shader starts from: memory is reached by addresses, which stand in a table; how large this step is
// stands beside the sizes of its dispatch. So neither a step of another size nor a tensor bound anew touches the
// recorded commands.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint w[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float f[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Ints { int i[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Longs { uint64_t l[]; };
// No shader writes the table. Compilers load its entries once, outside of loops, and into scalar registers.
layout(buffer_reference, std430, buffer_reference_align = 8) readonly restrict buffer Addresses { uint64_t l[]; };

// As struct Push in pipelines.h.
layout(push_constant) uniform Push {
  uint64_t addresses;  // Of the table of tensors.
  uint64_t step;       // Of this dispatch's groups (3 words) and rows.
  uint tensors[12];    // Places in the table.
  uint params[14];     // What the op is, see each shader.
  uint64_t grids;      // Of weights whose values lie in grids (grids.h).
} push;

uint64_t address(uint i) { return Addresses(push.addresses).l[push.tensors[i]]; }
Floats floats(uint i) { return Floats(address(i)); }
Ints ints(uint i) { return Ints(address(i)); }
uint n_rows() { return Words(push.step).w[3]; }
// A cancelled step finds no groups (plan.cpp), some drivers also in those that have begun: they go on as if there were one,
// and come to an end.
uvec3 n_groups() { return max(gl_NumWorkGroups, uvec3(1u)); }
uint param(uint i) { return push.params[i]; }
float param_float(uint i) { return uintBitsToFloat(push.params[i]); }

const float kLowest = -3.4e38;
