#version 460
#extension GL_GOOGLE_include_directive : require
// Rows to their cells. Tensors: cache, x, cells. Params: columns, bytes of a cell. Plain rows are floats of any number, also
// of F32 caches.
#include "common.glsl"
#include "unpack.glsl"
#include "pack.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kType = 0;
layout(constant_id = 1) const uint kPlain = 0;

void main() {
  const uint per_unit = kPlain != 0u ? 1u : kType <= kBF16 ? 2u : kPair;
  const uint columns = param(0), units = columns / per_unit;
  for (uint i = gl_GlobalInvocationID.x; i < n_rows() * units; i += n_groups().x * 128u) {
    const uint row = i / units, unit = i % units;
    Floats x = Floats(address(1) + (uint64_t(row) * columns + unit * per_unit) * 4u);
    const uint64_t cell = address(0) + uint64_t(ints(2).i[row]) * param(1);
    if (kPlain != 0u) {
      Floats(cell).f[unit] = x.f[0];
    } else if (kType <= kBF16) {
      store_two(kType, cell, unit * 2u, vec2(x.f[0], x.f[1]));
    } else {
      float values[kPair];
      for (uint j = 0; j < kPair; ++j) values[j] = x.f[j];
      store_pair(kType, cell + unit * pair_bytes(kType), values);
    }
  }
}
