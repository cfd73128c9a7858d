#version 460
#extension GL_GOOGLE_include_directive : require
// The logarithm of the sum of e^x over a row, and the row's value at one column. A workgroup takes one row at a time. Tensors:
// x, ids, out. Params: columns.
#include "common.glsl"
#include "rows.glsl"
const uint kThreads = 128;
layout(local_size_x = 128) in;
#include "elementary.glsl"
#include "reduce.glsl"
const int kNoRow = -2;  // As in ops::LogSumExp.

const float kLargest = 3.4028234664e38;

float number(float x) { return is_nan(x) ? -infinity() : x; }
float summand(float x) { return min(number(x), kLargest); }

void main() {
  const uint columns = param(0), t = thread();
  for (uint at = gl_WorkGroupID.x; at < n_rows(); at += n_groups().x) {
    const uint row = row_at(at);
    Floats x = Floats(address(0) + uint64_t(row) * columns * 4u);
    const int id = ints(1).i[row];
    float top = -infinity(), sum = 0.0;
    if (id != kNoRow) {
      for (uint i = t; i < columns; i += kThreads) top = max(top, summand(x.f[i]));
      top = reduce(top, true);
    }
    if (!is_infinite(top)) {
      for (uint i = t; i < columns; i += kThreads) sum += exp_of(summand(x.f[i]) - top);
      sum = reduce(sum, false);
    }
    if (t != 0u) continue;
    floats(2).f[2u * row] = sum == 0.0 ? -infinity() : top + log_of(sum);
    floats(2).f[2u * row + 1u] = id < 0 ? -infinity() : number(x.f[id]);
  }
}
