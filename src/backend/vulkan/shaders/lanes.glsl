// Products of few rows: a workgroup makes kOutputs outputs of up to kRows rows, a thread a lane of two outputs. Needs kRows.
#include "rows.glsl"
layout(local_size_x = 128) in;
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
    store_output(first + at / kOutputs, gl_WorkGroupID.x * kOutputs + at % kOutputs, y);
  }
}
