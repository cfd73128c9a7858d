#pragma once
// Attention, and what brings rows to caches: rope, stores, moves of cells. Tensors, params, constants and
// words as of their namesakes in vulkan/shaders.
#include "backend/cuda/kernels/codes.h"
#include "backend/cuda/kernels/pack.h"

namespace weft::cuda {

/// Turns the pairs of each head by their frequencies times the row's position.
WEFT_KERNEL(128) rope(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint columns = c.param(0), head_dim = c.param(1), half_rot = c.param(2) / 2u;
  const bool neox = c.param(3) != 0u;
  // A head is its pairs, then the elements that do not turn.
  const uint per_head = head_dim - half_rot, per_row = columns / head_dim * per_head;
  for_each<128>(c, c.n_rows() * per_row, [&](uint i) {
    const uint row = i / per_row, head = i % per_row / per_head, pair = i % per_head;
    const float* const x = c.row(0, row, columns) + head * head_dim;
    float* const result = c.row(3, row, columns) + head * head_dim;
    if (pair >= half_rot) {
      result[pair + half_rot] = x[pair + half_rot];
      return;
    }
    Turn turn = cos_sin(c.at<const std::uint64_t>(2)[pair], c.ints(1)[row]);
    turn = {turn.cos * c.param_float(4), turn.sin * c.param_float(4)};
    const uint first = neox ? pair : 2u * pair, second = neox ? pair + half_rot : 2u * pair + 1u;
    float a = x[first], b = x[second];
    turn_pair(turn, a, b);
    result[first] = a;
    result[second] = b;
  });
}

/// Rows to their cells.
WEFT_KERNEL(128) store_cache(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const bool plain = c.constant(1) != 0u;
  const uint type = plain ? kF32 : c.constant(0), columns = c.param(0);
  const uint per_unit = type <= kBF16 ? 1u : kCacheBlock, units = columns / per_unit;
  for_each<128>(c, c.n_rows() * units, [&](uint i) {
    const uint row = i / units, unit = i % units;
    const float* const x = c.row(1, row, columns) + unit * per_unit;
    std::uint8_t* const cell =
        c.at<std::uint8_t>(0, std::uint64_t{static_cast<uint>(c.ints(2)[row])} * c.param(1));
    if (type <= kBF16) return store_float(type, cell, unit, x[0]);
    float values[kCacheBlock];
    for (uint j = 0; j < kCacheBlock; ++j) values[j] = x[j];
    store_block(type, cell + unit * small_block_bytes(type), values);
  });
}

/// Rows of keys, turned as rope turns them, to their cells, which are floats of any number.
WEFT_KERNEL(128) store_turned(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint type = c.constant(0), columns = c.param(0), head_dim = c.param(1), half_rot = c.param(2) / 2u;
  const bool neox = c.param(3) != 0u;
  const uint per_head = head_dim - half_rot, per_row = columns / head_dim * per_head;
  for_each<128>(c, c.n_rows() * per_row, [&](uint i) {
    const uint row = i / per_row, head = i % per_row / per_head, pair = i % per_head;
    const float* const x = c.row(0, row, columns) + head * head_dim;
    std::uint8_t* const cell =
        c.at<std::uint8_t>(3, std::uint64_t{static_cast<uint>(c.ints(4)[row])} * c.param(5));
    const uint base = head * head_dim;
    if (pair >= half_rot) return store_float(type, cell, base + pair + half_rot, x[pair + half_rot]);
    Turn turn = cos_sin(c.at<const std::uint64_t>(2)[pair], c.ints(1)[row]);
    turn = {turn.cos * c.param_float(4), turn.sin * c.param_float(4)};
    const uint first = neox ? pair : 2u * pair, second = neox ? pair + half_rot : 2u * pair + 1u;
    float a = x[first], b = x[second];
    turn_pair(turn, a, b);
    store_float(type, cell, base + first, a);
    store_float(type, cell, base + second, b);
  });
}

/// Moves cells to other cells, one after another. A thread owns a part of all cells and makes all moves of it
/// in order, so no thread waits for another. The part is a word; a pair that turns; or of quantised caches
/// whole heads and pairs of blocks.
WEFT_KERNEL(64) move_cells(Arguments arguments) {
  constexpr uint kMaxUnit = 512;
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint type = c.constant(0), unit_size = c.constant(2), block = c.constant(3);
  const bool turns = c.constant(1) != 0u, neox = c.param(4) != 0u;
  const uint head_dim = c.param(0), heads = c.param(1), n_rot = c.param(3), half_rot = n_rot / 2u;
  const auto cell = [&](uint tensor, uint move) {
    return c.at<std::uint8_t>(0, std::uint64_t{static_cast<uint>(c.ints(tensor)[move])} * c.param(2));
  };
  const uint units = !turns          ? c.param(5)
                     : type <= kBF16 ? heads * (head_dim - half_rot)
                                     : (head_dim * heads + unit_size - 1u) / unit_size;
  for_each<64>(c, units, [&](uint unit) {
    for (uint m = 0; m < c.n_rows(); ++m) {
      std::uint8_t *const from = cell(1, m), *const to = cell(2, m);
      if (!turns) {
        reinterpret_cast<uint*>(to)[unit] = reinterpret_cast<const uint*>(from)[unit];
        continue;
      }
      const int delta = c.ints(3)[m];
      const auto turn_of = [&](uint pair) { return cos_sin(c.at<const std::uint64_t>(4)[pair], delta); };
      if (type <= kBF16) {
        const uint per_head = head_dim - half_rot, base = unit / per_head * head_dim, pair = unit % per_head;
        if (pair >= half_rot) {
          const uint at = base + pair + half_rot;
          store_float(type, to, at, float_at(type, from, at));
          continue;
        }
        const uint first = base + (neox ? pair : 2u * pair), second = neox ? first + half_rot : first + 1u;
        float a = float_at(type, from, first), b = float_at(type, from, second);
        if (delta != 0) turn_pair(turn_of(pair), a, b);
        store_float(type, to, first, a);
        store_float(type, to, second, b);
        continue;
      }
      const uint bytes = unit_size / kCacheBlock * small_block_bytes(type);
      std::uint8_t *const source = from + unit * bytes, *const target = to + unit * bytes;
      if (delta == 0) {
        for (uint i = 0; i < bytes; ++i) target[i] = source[i];
        continue;
      }
      float x[kMaxUnit];
      for (uint i = 0; i < unit_size; ++i) x[i] = cached_at(type, source, i);
      // To and from Hadamard rotations of keys, if the cache has these.
      const auto rotate = [&] {
        for (uint width = 1; width < block; width *= 2u)
          for (uint i = 0; i < unit_size / 2u; ++i) {
            const uint at = hadamard_first(i, width);
            const float a = x[at], b = x[at + width];
            x[at] = a + b;
            x[at + width] = a - b;
          }
        if (block > 0u)
          for (uint i = 0; i < unit_size; ++i) x[i] *= hadamard_scale(block);
      };
      rotate();
      for (uint head = 0; head < unit_size; head += head_dim)
        for (uint pair = 0; pair < half_rot; ++pair) {
          const uint first = head + (neox ? pair : 2u * pair), second = neox ? first + half_rot : first + 1u;
          turn_pair(turn_of(pair), x[first], x[second]);
        }
      rotate();
      for (uint first = 0; first < unit_size; first += kCacheBlock) {
        float values[kCacheBlock];
        for (uint i = 0; i < kCacheBlock; ++i) values[i] = x[first + i];
        store_block(type, target + first / kCacheBlock * small_block_bytes(type), values);
      }
    }
  });
}

// Attention over extents (graph/extent.h). The softmax of each page is computed alone, and pages are merged
// in their order. So a row has the same bits in any step.

/// For a query: the largest score so far, and the sum of the weights of its cells.
struct SoftmaxState {
  float top, sum;
};
struct MergeFactors {
  float all, page;
};
WEFT_DEVICE MergeFactors merge_factors(SoftmaxState all, float page_top) {
  const float top = larger(all.top, page_top);
  return {expf(all.top - top), expf(page_top - top)};
}
WEFT_DEVICE float merged_value(float all, float page, MergeFactors f) {
  return fmaf(all, f.all, page * f.page);
}
WEFT_DEVICE SoftmaxState merged(SoftmaxState all, SoftmaxState page, MergeFactors f) {
  return {larger(all.top, page.top), merged_value(all.sum, page.sum, f)};
}
/// The divisor of a query's values, including the sink of its head, if it has one.
WEFT_DEVICE float whole_sum(SoftmaxState all, float sink, bool has_sink) {
  return has_sink && all.sum > 0.0f ? all.sum + expf(sink - all.top) : all.sum;
}
WEFT_DEVICE float divided(float value, float sum) { return sum > 0.0f ? value / sum : 0.0f; }

/// A tile: rows of one sequence by heads that share keys, so that a page's keys and values are read once for
/// all of these queries. With `split` pages are spread over blocks and left for merge_pages, in place of out.
struct AttentionTile {
  static constexpr uint kThreads = 128, kCells = 64, kMaxQueries = 16, kMaxFloats = 2048;
  const Call& c;
  float *queries, *sums, *weights, *lanes;
  SoftmaxState *states, *pages;
  MergeFactors* factors;
  uint k_type, v_type, k_dim, v_dim, tile_rows, tile_heads;
  bool split;
  uint first_row, n_row, kv_head, first_head, n_head;
  int sequence;

  WEFT_DEVICE uint n_query() const { return n_row * tile_heads; }
  WEFT_DEVICE uint row_of(uint q) const { return first_row + q / tile_heads; }
  WEFT_DEVICE uint head_of(uint q) const { return least(first_head + q % tile_heads, c.param(0) - 1u); }
  WEFT_DEVICE int first_position(int position) const {
    const int window = static_cast<int>(c.param(6));
    if (window == 0) return -0x7fffffff;
    return c.param(11) != 0u ? position - position % window : position - window + 1;
  }
  WEFT_DEVICE float slope_of(uint head) const {
    if (c.param_float(12) == 0.0f) return 0.0f;
    const uint n_power = 1u << highest_bit(c.param(0));  // Heads whose slopes are whole steps.
    const float step =
        head < n_power ? static_cast<float>(head + 1u) : static_cast<float>(head - n_power) + 0.5f;
    return exp2f(-c.param_float(12) * step / static_cast<float>(n_power));
  }
  WEFT_DEVICE bool is_hidden(int list_begin, uint row, int page, uint cell) const {
    if (list_begin < 0) return false;
    const int* const list = c.ints(9);
    for (int h = list_begin; list[h * 4] == static_cast<int>(row); ++h)
      if (list[h * 4 + 1] == page &&
          (static_cast<uint>(list[h * 4 + 2 + static_cast<int>(cell / 32u)]) >> (cell % 32u) & 1u) != 0u)
        return true;
    return false;
  }
  /// Where a query's part of a page lies: its softmax, then its columns.
  WEFT_DEVICE float* partial(uint q, int e) const {
    const std::uint64_t of = std::uint64_t{row_of(q)} * c.param(0) + first_head + q % tile_heads;
    return c.at<float>(11, (of * c.param(7) + static_cast<uint>(e)) * (v_dim + 2u) * 4u);
  }

  WEFT_DEVICE void load_queries() const {
    const uint t = thread();
    barrier();
    for (uint i = t; i < n_query() * k_dim; i += kThreads) {
      const uint q = i / k_dim;
      queries[i] = c.row(0, row_of(q), c.param(0) * k_dim)[head_of(q) * k_dim + i % k_dim];
    }
    for (uint i = t; i < n_query() * v_dim; i += kThreads) sums[i] = 0.0f;
    if (t < n_query()) states[t] = {kLowest, 0.0f};
    barrier();
  }

  /// The page's scores of all queries; kLowest where a query does not see a cell.
  WEFT_DEVICE void score(int page, std::uint64_t mask, int base, int divisor, int offset) const {
    const uint cell = thread() % kCells, side = thread() / kCells;
    const bool held = (mask >> cell & 1u) != 0u;
    const int cell_position = (static_cast<int>(cell) + offset) / divisor + base;
    const Bytes key =
        c.at<const std::uint8_t>(1, (static_cast<std::uint64_t>(page) * kCells + cell) * c.param(8));
    for (uint q = side; q < n_query(); q += 2u) {
      const uint row = row_of(q), head = head_of(q);
      const int position = c.ints(3)[row];
      float s = kLowest;
      if (held && cell_position < c.ints(7)[row] && cell_position >= first_position(position) &&
          !is_hidden(c.ints(8)[row], row, page, cell)) {
        s = dot_cached(k_type, key, kv_head * k_dim, k_dim, queries + q * k_dim, 0.0f);
        s *= c.param_float(4);
        if (c.param_float(5) != 0.0f) s = c.param_float(5) * tanhf(s / c.param_float(5));
        const int away = position < cell_position ? cell_position - position : position - cell_position;
        s = fmaf(-slope_of(head), static_cast<float>(away), s);
        if (c.param(13) != 0u)
          s += c.floats(10)[head * c.param(13) + least(static_cast<uint>(away), c.param(13) - 1u)];
      }
      weights[q * kCells + cell] = s;
    }
  }

  /// Scores become weights. Eight threads a query, each for eight cells.
  WEFT_DEVICE void weigh() const {
    const uint t = thread(), q = t / 8u, begin = q * kCells + t % 8u * 8u;
    const bool mine = q < n_query();
    barrier();
    float top = kLowest, sum = 0.0f;
    if (mine)
      for (uint j = 0; j < 8u; ++j) top = larger(top, weights[begin + j]);
    lanes[t] = top;
    barrier();
    if (mine) {
      for (uint j = 0; j < 8u; ++j) top = larger(top, lanes[q * 8u + j]);
      for (uint j = 0; j < 8u; ++j) {
        const float s = weights[begin + j], w = s == kLowest ? 0.0f : expf(s - top);
        weights[begin + j] = w;
        sum += w;
      }
    }
    barrier();
    lanes[t] = sum;
    barrier();
    if (mine && t % 8u == 0u) {
      sum = 0.0f;
      for (uint j = 0; j < 8u; ++j) sum += lanes[t + j];
      pages[q] = {top, sum};
      if (!split && top != kLowest) {
        factors[q] = merge_factors(states[q], top);
        states[q] = merged(states[q], pages[q], factors[q]);
      }
    }
    barrier();
  }

  /// A column of V of kAhead cells. All are loaded before the first of them is needed.
  template <uint kAhead>
  WEFT_DEVICE void load_values(int page, uint first, uint column, float (&v)[kAhead]) const {
    const Bytes cells =
        c.at<const std::uint8_t>(2, (static_cast<std::uint64_t>(page) * kCells + first) * c.param(9));
    const uint at = kv_head * v_dim + column;
    if (v_type == kF16) {  // Without a branch for each load.
      WEFT_UNROLL
      for (uint j = 0; j < kAhead; ++j) v[j] = float_at(kF16, cells + j * c.param(9), at);
      return;
    }
    WEFT_UNROLL
    for (uint j = 0; j < kAhead; ++j) v[j] = cached_at(v_type, cells + j * c.param(9), at);
  }

  /// A thread has a column of up to kMost queries, so that each element of V is read once for all of them.
  template <uint kMost>
  WEFT_DEVICE void add_values(int page, std::uint64_t mask, int e) const {
    // Many queries have enough to do with each value.
    constexpr uint kAhead = kMost == 1 ? 8 : kMost <= 4 ? 4 : 1;
    for (uint column = thread(); column < v_dim; column += kThreads) {
      float parts[kMost] = {};
      for (uint first = 0; first < kCells; first += kAhead) {
        const uint bits = static_cast<uint>(mask >> first) & ((1u << kAhead) - 1u);
        if (bits == 0u) continue;
        float v[kAhead];
        load_values(page, first, column, v);
        WEFT_UNROLL
        for (uint j = 0; j < kAhead; ++j) WEFT_UNROLL
        for (uint q = 0; q < kMost; ++q) {
          const bool sees = q < n_query() && (bits >> j & 1u) != 0u;
          const float w = sees ? weights[q * kCells + first + j] : 0.0f;
          // Cells that a query does not see may have NaN.
          if (w != 0.0f) parts[q] = fmaf(w, v[j], parts[q]);
        }
      }
      WEFT_UNROLL
      for (uint q = 0; q < kMost; ++q) {
        if (q >= n_query()) continue;
        if (!split) {
          float& sum = sums[q * v_dim + column];
          if (pages[q].top != kLowest) sum = merged_value(sum, parts[q], factors[q]);
          continue;
        }
        if (q % tile_heads >= n_head) continue;
        float* const to = partial(q, e);
        if (column == 0u) to[0] = pages[q].top, to[1] = pages[q].sum;
        to[2u + column] = parts[q];
      }
    }
  }

  WEFT_DEVICE void attend() const {
    load_queries();
    int last_end = c.ints(7)[first_row], least_first = first_position(c.ints(3)[first_row]);
    for (uint row = first_row + 1u; row < first_row + n_row; ++row) {
      const int end = c.ints(7)[row], first = first_position(c.ints(3)[row]);
      last_end = end > last_end ? end : last_end;
      least_first = first < least_first ? first : least_first;
    }
    const int n_extents = c.ints(6)[sequence];
    const int* const extents = c.ints(5) + static_cast<std::uint64_t>(sequence) * c.param(7) * 6u;
    for (int e = split ? static_cast<int>(block().z) : 0; e < n_extents;
         e += split ? static_cast<int>(c.groups().z) : 1) {
      const int* const one = extents + e * 6;
      const std::uint64_t mask = static_cast<uint>(one[0]) | std::uint64_t{static_cast<uint>(one[1])} << 32;
      const int page = one[2], base = one[3], divisor = one[4], offset = one[5];
      if (offset / divisor + base >= last_end ||
          (static_cast<int>(kCells) - 1 + offset) / divisor + base < least_first) {
        if (split && thread() < n_query() && thread() % tile_heads < n_head)
          partial(thread(), e)[0] = kLowest;
        continue;
      }
      score(page, mask, base, divisor, offset);
      weigh();
      if (n_query() == 1u) {
        add_values<1>(page, mask, e);
      } else if (n_query() <= 4u) {
        add_values<4>(page, mask, e);
      } else {
        add_values<kMaxQueries>(page, mask, e);
      }
      barrier();
    }
    if (split) return;
    for (uint i = thread(); i < n_query() * v_dim; i += kThreads) {
      const uint q = i / v_dim;
      if (q % tile_heads >= n_head) continue;
      const bool has_sinks = c.param(10) != 0u;
      const float sum = whole_sum(states[q], has_sinks ? c.floats(10)[head_of(q)] : 0.0f, has_sinks);
      c.row(11, row_of(q), c.param(0) * v_dim)[head_of(q) * v_dim + i % v_dim] = divided(sums[i], sum);
    }
  }
};

WEFT_KERNEL(128) attention(Arguments arguments) {
  using Tile = AttentionTile;
  WEFT_SHARED float queries[Tile::kMaxFloats];
  WEFT_SHARED float sums[Tile::kMaxFloats];
  WEFT_SHARED float weights[Tile::kMaxQueries * Tile::kCells];
  WEFT_SHARED float lanes[Tile::kThreads];
  WEFT_SHARED SoftmaxState states[Tile::kMaxQueries];
  WEFT_SHARED SoftmaxState pages[Tile::kMaxQueries];
  WEFT_SHARED MergeFactors factors[Tile::kMaxQueries];
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint tile_rows = c.constant(4), tile_heads = c.constant(5);
  const uint per_kv = c.param(0) / c.param(1), blocks = (per_kv + tile_heads - 1u) / tile_heads;
  const uint kv_head = block().x / blocks, in_kv = block().x % blocks * tile_heads, n = c.n_rows();
  const int* const sequences = c.ints(4);
  for (uint row = block().y; row < n; row += c.groups().y) {
    const int sequence = sequences[row];
    // A tile begins at every tile_rows-th row and where another sequence does.
    if (row % tile_rows != 0u && sequences[row - 1u] == sequence) continue;
    uint n_row = 1;
    while ((row + n_row) % tile_rows != 0u && row + n_row < n && sequences[row + n_row] == sequence) ++n_row;
    const Tile tile{c,
                    queries,
                    sums,
                    weights,
                    lanes,
                    states,
                    pages,
                    factors,
                    c.constant(0),
                    c.constant(1),
                    c.constant(2),
                    c.constant(3),
                    tile_rows,
                    tile_heads,
                    c.constant(7) != 0u,
                    row,
                    n_row,
                    kv_head,
                    kv_head * per_kv + in_kv,
                    least(tile_heads, per_kv - in_kv),
                    sequence};
    tile.attend();
  }
}

/// What attention left of each page, merged in the order of pages. A block takes a head of a row.
WEFT_KERNEL(64) merge_pages(Arguments arguments) {
  constexpr uint kThreads = 64, kMaxColumns = 1024;
  WEFT_SHARED float values[kMaxColumns];
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint heads = c.param(0), v_dim = c.param(1), n_parts = c.param(2), head = block().x, t = thread();
  const bool has_sinks = c.param(3) != 0u, has_floats = c.constant(1) != 0u, has_codes = c.constant(2) != 0u;
  for (uint row = block().y; row < c.n_rows(); row += c.groups().y) {
    const int n_extents = c.ints(2)[c.ints(1)[row]];
    const float* const parts = c.floats(0) + (std::uint64_t{row} * heads + head) * n_parts * (v_dim + 2u);
    for (uint column = t; column < v_dim; column += kThreads) {
      SoftmaxState all = {kLowest, 0.0f};
      float value = 0.0f;
      for (int e = 0; e < n_extents; ++e) {
        const float* const part = parts + static_cast<std::uint64_t>(e) * (v_dim + 2u);
        if (part[0] == kLowest) continue;  // No cell of this page is seen.
        const MergeFactors f = merge_factors(all, part[0]);
        all = merged(all, {part[0], part[1]}, f);
        value = merged_value(value, part[2u + column], f);
      }
      value = divided(value, whole_sum(all, has_sinks ? c.floats(3)[head] : 0.0f, has_sinks));
      if (has_floats) c.row(4, row, heads * v_dim)[head * v_dim + column] = value;
      values[column] = value;
    }
    if (!has_codes) continue;
    barrier();
    for (uint b = t; b < v_dim / kBlock; b += kThreads)
      store_codes(code_row(c, 5, row, heads * v_dim), head * v_dim / kBlock + b,
                  [&](uint i) { return values[b * kBlock + i]; });
    barrier();
  }
}

/// Attention of rows over rows (ops::RaggedAttention). A block takes a head of a row; keys in tiles of 64
/// from the row's own first key on, with an online softmax.
WEFT_KERNEL(64) ragged_attention(Arguments arguments) {
  constexpr uint kThreads = 64, kMaxColumns = 16;
  WEFT_SHARED float weights[kThreads];
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint tile_rows = c.constant(0), heads = c.param(0), kv_heads = c.param(1), k_dim = c.param(2),
             v_dim = c.param(3);
  const uint head = block().x, kv_head = head / (heads / kv_heads), t = thread();
  const int n_keys = static_cast<int>(c.word(0));
  const auto clamped = [](int x, int low, int high) { return x < low ? low : x > high ? high : x; };
  for (uint first = block().y * tile_rows; first < c.n_rows(); first += c.groups().y * tile_rows)
    for (uint row = first; row < least(first + tile_rows, c.n_rows()); ++row) {
      const float* const q = c.row(0, row, heads * k_dim) + head * k_dim;
      const int begin = clamped(c.ints(3)[row], 0, n_keys), end = clamped(c.ints(4)[row], begin, n_keys);
      float top = kLowest, sum = 0.0f, values[kMaxColumns] = {};
      for (int tile = begin; tile < end; tile += static_cast<int>(kThreads)) {
        const int key = tile + static_cast<int>(t);
        float score = kLowest;
        if (key < end) {
          const float* const k = c.row(1, static_cast<uint>(key), kv_heads * k_dim) + kv_head * k_dim;
          score = 0.0f;
          for (uint i = 0; i < k_dim; ++i) score = fmaf(q[i], k[i], score);
          score *= c.param_float(4);
        }
        const float new_top = larger(top, largest_of_block<kThreads>(score));
        const float factor = expf(top - new_top);
        const float weight = score == kLowest ? 0.0f : expf(score - new_top);
        sum = sum * factor + sum_of_block<kThreads>(weight);
        top = new_top;
        barrier();
        weights[t] = weight;
        barrier();
        const uint n = least(kThreads, static_cast<uint>(end - tile));
        for (uint i = 0, column = t; column < v_dim && i < kMaxColumns; ++i, column += kThreads) {
          values[i] *= factor;
          for (uint j = 0; j < n; ++j)
            values[i] = fmaf(
                weights[j], c.row(2, static_cast<uint>(tile) + j, kv_heads * v_dim)[kv_head * v_dim + column],
                values[i]);
        }
      }
      float* const result = c.row(5, row, heads * v_dim) + head * v_dim;
      for (uint i = 0, column = t; column < v_dim && i < kMaxColumns; ++i, column += kThreads)
        result[column] = sum == 0.0f ? 0.0f : values[i] / sum;
      barrier();
    }
}

}  // namespace weft::cuda
