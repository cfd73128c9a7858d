#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Attention over extents (graph/extent.h) of tiles: kRows rows of one sequence by kHeads heads that share keys, so that a page's
// keys and values are read once for all of these queries. A thread scores one cell for half of the queries, then owns columns
// of V for some of them. With kSplit pages are spread over workgroups and left for merge_pages.comp, in place of out.
#include "common.glsl"
#include "rows.glsl"
#include "unpack.glsl"
#include "activations.glsl"
#include "float_blocks.glsl"
#include "attention.glsl"
const uint kThreads = 128;
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kKType = 0;
layout(constant_id = 1) const uint kVType = 0;
layout(constant_id = 2) const uint kKeyDim = 64;
layout(constant_id = 3) const uint kValueDim = 64;
layout(constant_id = 4) const uint kRows = 1;
layout(constant_id = 5) const uint kHeads = 1;
layout(constant_id = 6) const uint kAcross = 16;  // Neighbouring threads that own columns of V, four each.
layout(constant_id = 7) const uint kSplit = 0;
const uint kQueries = kRows * kHeads;  // 16 at most.
const uint kParts = (kKeyDim + 31) / 32, kQuads = 8;
shared vec4 queries[kQueries * kParts * kQuads];
shared vec4 key_part[kCells * (kQuads + 1)];  // One more than needed: cells spread over the banks.
shared float weights[kQueries * kCells];
shared float lanes[kThreads];
shared Softmax states[kQueries];
shared Softmax pages[kQueries];
shared vec2 factors[kQueries];
shared ivec4 row_limits[kRows];  // Position, end, first position, hidden cells.

const uint kScores = (kQueries + 1) / 2;
const uint kUnits = (kValueDim + 3) / 4, kPasses = (kUnits + kAcross - 1) / kAcross, kTeams = kThreads / kAcross;
const uint kMine = (kQueries + kTeams - 1) / kTeams, kSums = kMine * kPasses;
// Many queries have enough to do with each value.
const uint kAhead = kMine > 2u ? 1u : 8u;

void load_queries(uint first_row, uint n_row, uint first_head) {
  const uint t = gl_LocalInvocationID.x;
  for (uint i = t; i < kQueries * kParts * kQuads; i += kThreads) {
    const uint q = i / (kParts * kQuads), column = i % (kParts * kQuads) * 4u;
    const uint row = first_row + min(q / kHeads, n_row - 1u), head = min(first_head + q % kHeads, param(0) - 1u);
    Floats x = Floats(address(0) + (uint64_t(row) * param(0) + head) * kKeyDim * 4u);
    vec4 v = vec4(0.0);
    for (uint c = 0; c < 4u; ++c)
      if (column + c < kKeyDim) v[c] = x.f[column + c];
    queries[i] = v;
  }
  if (t < kRows) {
    const uint row = first_row + min(t, n_row - 1u);
    const int position = ints(3).i[row];
    row_limits[t] = ivec4(position, ints(7).i[row], first_position(position), ints(8).i[row]);
  }
  if (t < kQueries) states[t] = Softmax(kLowest, 0.0);
  barrier();
}

void load_keys(uint64_t cell, uint kv_head, uint chunk, out vec4 v[4]) {
  if (kKeyDim % 16u == 0u) {
    v = vec4[](vec4(0), vec4(0), vec4(0), vec4(0));
    if (chunk * 16u < kKeyDim) unpack16(kKType, cell, kv_head * (kKeyDim / 16u) + chunk, param(1) * kKeyDim, v);
    return;
  }
  for (uint i = 0; i < 16u; ++i) {
    const uint column = chunk * 16u + i;
    v[i / 4u][i % 4u] = column < kKeyDim ? cached_at(kKType, cell, kv_head * kKeyDim + column) : 0.0;
  }
}

vec4 load_values(uint64_t cell, uint kv_head, uint unit) {
  const uint first = kv_head * kValueDim + unit * 4u;
  if (kVType != kF32 && kVType <= kBF16 && kValueDim % 4u == 0u) {
    Words w = Words(cell + first * 2u);
    return vec4(two_halves(kVType, w.w[0]), two_halves(kVType, w.w[1]));
  }
  vec4 v = vec4(0.0);
  for (uint c = 0; c < 4u; ++c)
    if (unit * 4u + c < kValueDim) v[c] = cached_at(kVType, cell, first + c);
  return v;
}

bool is_hidden(int list_begin, uint row, int page, uint cell) {
  if (list_begin < 0) return false;
  Ints list = ints(9);
  for (int h = list_begin; list.i[h * 4] == int(row); ++h)
    if (list.i[h * 4 + 1] == page && (uint(list.i[h * 4 + 2 + int(cell / 32u)]) >> (cell % 32u) & 1u) != 0u) return true;
  return false;
}

// The page's scores of all queries, in weights; kLowest where a query does not see a cell.
void score(uint first_row, uint n_query, uint first_head, uint kv_head, int page, uvec2 mask, int base, int divisor, int offset) {
  const uint t = gl_LocalInvocationID.x, cell = t % kCells, side = t / kCells;
  float scores[kScores];
  [[unroll]] for (uint i = 0; i < kScores; ++i) scores[i] = 0.0;
  for (uint part = 0; part < kParts; ++part) {
    barrier();
    vec4 v[4];
    load_keys(address(1) + (uint64_t(page) * kCells + t / 2u) * param(8), kv_head, part * 2u + t % 2u, v);
    for (uint i = 0; i < 4u; ++i) key_part[t / 2u * (kQuads + 1u) + t % 2u * 4u + i] = v[i];
    barrier();
    for (uint quad = 0; quad < kQuads; ++quad) {
      const vec4 k = key_part[cell * (kQuads + 1u) + quad];
      // Without a branch, so that the products of all queries overlap. Those past the end are not used.
      [[unroll]] for (uint i = 0; i < kScores; ++i) {
        const uint q = min(2u * i + side, kQueries - 1u);
        scores[i] = dot_on(queries[q * kParts * kQuads + part * kQuads + quad], k, scores[i]);
      }
    }
  }
  const bool held = ((cell < 32u ? mask.x >> cell : mask.y >> (cell - 32u)) & 1u) != 0u;
  const int cell_position = (int(cell) + offset) / divisor + base;
  [[unroll]] for (uint i = 0; i < kScores; ++i) {
    const uint q = 2u * i + side;
    if (q >= n_query) continue;
    const ivec4 limits = row_limits[q / kHeads];
    float s = kLowest;
    if (held && cell_position < limits.y && cell_position >= limits.z &&
        !is_hidden(limits.w, first_row + q / kHeads, page, cell)) {
      const uint head = min(first_head + q % kHeads, param(0) - 1u);
      const int away = abs(limits.x - cell_position);
      s = scores[i] * param_float(4);
      if (param_float(5) != 0.0) s = param_float(5) * tanh_of(s / param_float(5));
      s = fma(-slope_of(head), float(away), s);
      if (param(13) != 0u) s += floats(10).f[head * param(13) + min(uint(away), param(13) - 1u)];
    }
    weights[q * kCells + cell] = s;
  }
}

// Scores become weights. Eight threads a query, each for eight cells.
void weigh(uint n_query) {
  const uint t = gl_LocalInvocationID.x, q = t / 8u, begin = q * kCells + t % 8u * 8u;
  const bool mine = q < n_query;
  barrier();
  float top = kLowest, sum = 0.0;
  if (mine)
    for (uint j = 0; j < 8u; ++j) top = max(top, weights[begin + j]);
  lanes[t] = top;
  barrier();
  if (mine) {
    for (uint j = 0; j < 8u; ++j) top = max(top, lanes[q * 8u + j]);
    for (uint j = 0; j < 8u; ++j) {
      const float s = weights[begin + j], w = s == kLowest ? 0.0 : exp(s - top);
      weights[begin + j] = w;
      sum += w;
    }
  }
  barrier();
  lanes[t] = sum;
  barrier();
  if (mine && t % 8u == 0u) {
    sum = 0.0;
    for (uint j = 0; j < 8u; ++j) sum += lanes[t + j];
    pages[q] = Softmax(top, sum);
    if (kSplit == 0u && top != kLowest) {
      factors[q] = merge_factors(states[q], top);
      states[q] = merged(states[q], pages[q], factors[q]);
    }
  }
  barrier();
}

// Where a query's part of a page lies: its softmax, then its columns.
Floats partial(uint first_row, uint first_head, uint q, int e) {
  const uint64_t of = uint64_t(first_row + q / kHeads) * param(0) + first_head + q % kHeads;
  return Floats(address(11) + (of * param(7) + e) * (kValueDim + 2u) * 4u);
}

void attend(uint first_row, uint n_row, uint kv_head, uint first_head, uint n_head, int sequence) {
  const uint t = gl_LocalInvocationID.x, n_query = n_row * kHeads;
  barrier();
  load_queries(first_row, n_row, first_head);
  int last_end = row_limits[0].y, least_first = row_limits[0].z;
  for (uint r = 1; r < kRows; ++r) {
    last_end = max(last_end, row_limits[r].y);
    least_first = min(least_first, row_limits[r].z);
  }
  vec4 sums[kSums];
  [[unroll]] for (uint i = 0; i < kSums; ++i) sums[i] = vec4(0.0);
  const int n_extents = ints(6).i[sequence];
  Ints extents = Ints(address(5) + uint64_t(sequence) * param(7) * 24u);
  for (int e = kSplit != 0u ? int(gl_WorkGroupID.z) : 0; e < n_extents; e += kSplit != 0u ? int(n_groups().z) : 1) {
    const int at = min(e, int(param(7)) - 1) * 6;  // See row_at.
    const uvec2 mask = uvec2(extents.i[at], extents.i[at + 1]);
    const int page = extents.i[at + 2], base = extents.i[at + 3], divisor = extents.i[at + 4];
    const int offset = extents.i[at + 5];
    if (offset / divisor + base >= last_end || (int(kCells) - 1 + offset) / divisor + base < least_first) {
      if (kSplit != 0u && t < n_query && t % kHeads < n_head) partial(first_row, first_head, t, e).f[0] = kLowest;
      continue;
    }
    score(first_row, n_query, first_head, kv_head, page, mask, base, divisor, offset);
    weigh(n_query);
    const uint team = t / kAcross;
    const uint64_t v_page = address(2) + uint64_t(page) * kCells * param(9);
    for (uint pass = 0; pass < kPasses; ++pass) {
      const uint unit = t % kAcross + pass * kAcross;
      vec4 parts[kMine];
      [[unroll]] for (uint i = 0; i < kMine; ++i) parts[i] = vec4(0.0);
      // The values of kAhead cells are loaded before the first of them is needed.
      for (uint first = 0; first < kCells && unit < kUnits; first += kAhead) {
        const uint bits = (first < 32u ? mask.x >> first : mask.y >> (first - 32u)) & ((1u << kAhead) - 1u);
        if (bits == 0u) continue;
        vec4 v[kAhead];
        [[unroll]] for (uint j = 0; j < kAhead; ++j)
          v[j] = load_values(v_page + uint64_t(first + j) * param(9), kv_head, unit);
        [[unroll]] for (uint j = 0; j < kAhead; ++j)
          [[unroll]] for (uint i = 0; i < kMine; ++i) {
            const uint q = i * kTeams + team;
            const bool sees = q < n_query && (bits >> j & 1u) != 0u;
            const float w = sees ? weights[min(q, kQueries - 1u) * kCells + first + j] : 0.0;
            // Cells that a query does not see may have NaN.
            if (w != 0.0) parts[i] = fma(vec4(w), v[j], parts[i]);
          }
      }
      [[unroll]] for (uint i = 0; i < kMine; ++i) {
        const uint q = i * kTeams + team;
        if (q >= n_query) continue;
        if (kSplit != 0u) {
          if (q % kHeads >= n_head) continue;
          Floats to = partial(first_row, first_head, q, e);
          if (unit == 0u) {
            to.f[0] = pages[q].top;
            to.f[1] = pages[q].sum;
          }
          for (uint c = 0; c < 4u; ++c)
            if (unit * 4u + c < kValueDim) to.f[2u + unit * 4u + c] = parts[i][c];
        } else if (pages[q].top != kLowest) {
          vec4 all = sums[pass * kMine + i];
          for (uint c = 0; c < 4u; ++c) all[c] = merged_value(all[c], parts[i][c], factors[q]);
          sums[pass * kMine + i] = all;
        }
      }
    }
  }
  if (kSplit != 0u) return;
  [[unroll]] for (uint pass = 0; pass < kPasses; ++pass)
    [[unroll]] for (uint i = 0; i < kMine; ++i) {
      const uint q = i * kTeams + t / kAcross, unit = t % kAcross + pass * kAcross;
      if (q >= n_query || q % kHeads >= n_head) continue;
      const uint head = first_head + q % kHeads;
      const float sum = whole_sum(states[q], param(10) != 0u ? floats(10).f[head] : 0.0, param(10) != 0u);
      Floats result = Floats(address(11) + (uint64_t(first_row + q / kHeads) * param(0) + head) * kValueDim * 4u);
      for (uint c = 0; c < 4u; ++c)
        if (unit * 4u + c < kValueDim) result.f[unit * 4u + c] = divided(sums[pass * kMine + i][c], sum);
    }
}

void main() {
  const uint per_kv = param(0) / param(1), blocks = (per_kv + kHeads - 1u) / kHeads;
  const uint kv_head = gl_WorkGroupID.x / blocks, in_kv = gl_WorkGroupID.x % blocks * kHeads;
  const uint n_head = min(kHeads, per_kv - in_kv), n = n_rows();
  for (uint at = gl_WorkGroupID.y; at < n; at += n_groups().y) {
    const uint row = row_at(at);
    const int sequence = ints(4).i[row];
    // A tile begins at every kRows-th row and where another sequence does.
    if (row % kRows != 0u && ints(4).i[row - 1u] == sequence) continue;
    uint n_row = 1;
    while ((row + n_row) % kRows != 0u && row + n_row < n && ints(4).i[row + n_row] == sequence) ++n_row;
    attend(row, n_row, kv_head, kv_head * per_kv + in_kv, n_head, sequence);
  }
}
