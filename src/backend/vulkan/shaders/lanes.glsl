// Products of few rows: a workgroup makes kOutputs outputs of up to kRows rows, a thread a lane of two outputs. Needs kRows.
// Of one row the last workgroup makes more (fusion.h): what a norm of the row and its addition to another give (kAddsNorm), and
// a norm of that or of the row (kNorms).
#include "rows.glsl"
#include "last_group.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 2) const uint kAddsNorm = 0;
layout(constant_id = 3) const uint kAddedNorm = 0;  // Its kind.
layout(constant_id = 4) const uint kNorms = 0;
layout(constant_id = 5) const uint kNorm = 0;  // Its kind.
layout(constant_id = 6) const uint kNormFloats = 0;
layout(constant_id = 7) const uint kNormCodes = 0;
const bool kHasTail = kAddsNorm + kNorms != 0u;
const uint kThreads = 128;
#define NORM_X SharedFloats
#include "norm.glsl"
// Where the tail has its tensors and params: as in launches_products.cpp.
const uint kTailSum = 3, kTailAddend = 7;
const NormOperands kOfAddedNorm = NormOperands(5u, 10u), kOfNorm = NormOperands(8u, 7u);
const uint kSlots = 128 / kLanes, kOutputs = 2 * kSlots;
const uint kSums = kRows * 2;
shared float parts[kRows * kOutputs * (kLanes + 1)];  // One more than needed: outputs spread over the banks.

// Of the rows first, first + 1, ...: which outputs this thread sums, and which lane of them.
uint lane() { return gl_LocalInvocationID.x % kLanes; }
uint output_of(uint i) { return gl_WorkGroupID.x * kOutputs + gl_LocalInvocationID.x / kLanes + i * kSlots; }
// Rows that this workgroup takes at a time; where each has experts of its own, one.
uint rows_at_a_time() { return param(4) > 0u ? 1u : kRows; }
uint expert_of(uint first) { return param(4) > 0u ? uint(ints(3).i[row_at(first)]) : 0u; }
uint row_of_x(uint first, uint r) { return param(4) > 0u && param(5) == 0u ? first / param(4) : first + r; }

void store_lanes(float sums[kSums], uint first, uint count) {
  const uint t = gl_LocalInvocationID.x;
  barrier();
  for (uint r = 0; r < kRows; ++r)
    for (uint i = 0; i < 2u; ++i)
      parts[(r * kOutputs + t / kLanes + i * kSlots) * (kLanes + 1u) + lane()] = sums[r * 2u + i];
  barrier();
  for (uint at = t; at < count * kOutputs; at += 128u) {
    float y = 0.0;
    for (uint l = 0; l < kLanes; ++l) y += parts[at * (kLanes + 1u) + l];
    const uint row = first + at / kOutputs, o = gl_WorkGroupID.x * kOutputs + at % kOutputs;
    if (!kHasTail) {
      store_output(row, o, y);
    } else if (o < param(0)) {
      SharedFloats(output_row(row)).f[o] = output_value(row, o, y);
    }
  }
}

void make_tail() {
  if (!kHasTail || !is_last_group((param(0) + kOutputs - 1u) / kOutputs)) return;
  const uint columns = param(0);
  SharedFloats row = SharedFloats(output_row(0u));
  if (kAddsNorm != 0u) {
    const vec2 norm = norm_of(row, columns, kAddedNorm, kOfAddedNorm);
    SharedFloats sums = SharedFloats(address(kTailSum));
    for (uint i = thread(); i < columns; i += kThreads)
      sums.f[i] = normed(row, i, norm, kOfAddedNorm) + floats(kTailAddend).f[i];
    memoryBarrierBuffer();
    barrier();
    memoryBarrierBuffer();
    row = sums;
  }
  if (kNorms != 0u) norm_group(row, 0u, columns, kNorm, kOfNorm, kNormFloats != 0u, kNormCodes != 0u);
}
