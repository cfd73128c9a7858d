#version 460
#extension GL_GOOGLE_include_directive : require
// The largest of a row, largest first and lower index first among equals. A workgroup takes a row, or kPart columns of it,
// whose best a second launch then chooses from. Tensors: x, counts, out. Params: columns, n, has counts.
#include "common.glsl"
#include "rows.glsl"
#include "elementary.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint kThreads = 128;
layout(constant_id = 1) const uint kPart = 0;       // 0: all columns.
layout(constant_id = 2) const uint kFromParts = 0;  // x is what launches of parts wrote.
layout(constant_id = 3) const uint kIdsOnly = 0;    // Out is n integers; else n values, then n indices as floats.

struct Candidate {
  float value;
  uint id;
};
const uint kNowhere = 0xffffffffu;
Candidate none() { return Candidate(-infinity(), kNowhere); }
bool goes_before(Candidate a, Candidate b) { return a.value > b.value || (a.value == b.value && a.id < b.id); }

shared float values[kThreads];
shared uint ids[kThreads];

// Candidate j of columns from `begin` on, or of parts in sequence.
Candidate candidate(Floats x, uint begin, uint j) {
  const uint n = param(1);
  if (kFromParts != 0u) {
    const uint at = j / n * 2u * n + j % n;
    const float id = x.f[at + n];
    return id < 0.0 ? none() : Candidate(x.f[at], uint(id));
  }
  const float value = x.f[begin + j];
  return Candidate(is_nan(value) ? -infinity() : value, begin + j);
}

// This thread's best candidate after `last`.
Candidate next(Floats x, uint begin, uint count, bool first, Candidate last) {
  Candidate mine = none();
  for (uint j = gl_LocalInvocationID.x; j < count; j += kThreads) {
    const Candidate c = candidate(x, begin, j);
    if (goes_before(c, mine) && (first || goes_before(last, c))) mine = c;
  }
  return mine;
}

Candidate best_of_all(Candidate mine) {
  const uint t = gl_LocalInvocationID.x;
  barrier();
  values[t] = mine.value;
  ids[t] = mine.id;
  for (uint half_n = kThreads / 2u; half_n > 0u; half_n /= 2u) {
    barrier();
    if (t >= half_n) continue;
    const Candidate other = Candidate(values[t + half_n], ids[t + half_n]);
    if (goes_before(other, mine)) mine = other;
    values[t] = mine.value;
    ids[t] = mine.id;
  }
  barrier();
  return Candidate(values[0], ids[0]);
}

void store(uint at, uint k, Candidate c) {
  const uint n = param(1);
  if (kIdsOnly != 0u) {
    ints(2).i[at * n + k] = int(c.id);
    return;
  }
  floats(2).f[at * 2u * n + k] = c.value;
  floats(2).f[at * 2u * n + n + k] = c.id == kNowhere ? -1.0 : float(c.id);
}

void main() {
  const uint columns = param(0), n = param(1), part = gl_WorkGroupID.y;
  const uint begin = part * kPart, count = kFromParts != 0u ? columns / 2u : kPart == 0u ? columns : min(kPart, columns - begin);
  for (uint row = gl_WorkGroupID.x; row < n_rows(); row += n_groups().x) {
    Floats x = Floats(address(0) + uint64_t(row) * columns * 4u);
    const uint wanted = param(2) != 0u ? uint(ints(1).i[row_at(row)]) : n;
    Candidate mine = none(), last = none();
    if (wanted > 0u) mine = next(x, begin, count, true, last);
    for (uint k = 0; k < n; ++k) {
      last = none();
      if (k < wanted) {
        last = best_of_all(mine);
        if (mine.id == last.id && last.id != kNowhere) mine = next(x, begin, count, false, last);
      }
      if (gl_LocalInvocationID.x == 0u) store(row * n_groups().y + part, k, last);
    }
  }
}
