#pragma once
// Products with weights, and of matrices. Tensors, params, constants and words as of their namesakes in
// vulkan/shaders.
//
// Blocks of 32 columns are dealt to 16 lanes in turns. A lane adds its blocks in order. Then the lanes are
// added in order, as in vulkan/shaders/products.glsl. So a row has the same bits whatever kernel makes it.
#include "backend/cuda/kernels/codes.h"

namespace weft::cuda {

struct Product {
  static constexpr uint kLanes = 16, kBlockColumns = 32;
  const Call& c;
  uint type, outputs, columns, n_blocks;

  WEFT_DEVICE explicit Product(const Call& call)
      : c(call),
        type(call.constant(0)),
        outputs(call.param(0)),
        columns(call.param(1)),
        n_blocks((columns + kBlockColumns - 1u) / kBlockColumns) {}
  /// The row of x that output row `row` multiplies.
  WEFT_DEVICE uint x_row(uint row) const {
    return c.param(4) > 0u && c.param(5) == 0u ? row / c.param(4) : row;
  }
  WEFT_DEVICE uint expert_of(uint row) const {
    return c.param(4) > 0u ? static_cast<uint>(c.ints(3)[row]) : 0u;
  }
  WEFT_DEVICE Bytes weight_row(uint expert, uint o) const {
    return c.at<const std::uint8_t>(
        0, (std::uint64_t{least(expert, c.param(13) - 1u)} * outputs + least(o, outputs - 1u)) * c.param(2));
  }
  /// The sum of a lane's blocks of a row, with weights as floats.
  WEFT_DEVICE float lane_sum(Bytes weights, const float* x, uint lane) const {
    float sum = 0.0f;
    for (uint b = lane; b < n_blocks; b += kLanes)
      for (uint chunk = 2u * b; chunk < 2u * b + 2u && chunk * 16u < columns; ++chunk) {
        float w[16];
        unpack16(type, grids_of(c), weights, chunk, columns, w);
        const uint n = least(16u, columns - chunk * 16u);
        for (uint i = 0; i < n; ++i) sum = fmaf(w[i], x[chunk * 16u + i], sum);
      }
    return sum;
  }
  WEFT_DEVICE void store(uint row, uint o, float y) const {
    if (o >= outputs) return;
    if (c.param(3) != 0u) y += c.floats(2)[o];
    if (c.param(6) != 0u) y += c.row(7, row, outputs)[o];
    c.row(4, row, outputs)[o] = y;
  }
};

/// The rows of a block's tiles, in turns: neighbours, or rows that were sorted by expert (sort_experts).
struct RowTile {
  const Product& p;
  uint tile_rows, tile, expert, begin, n_rows;
  bool sorted;

  WEFT_DEVICE RowTile(const Product& product, uint rows)
      : p(product),
        tile_rows(rows),
        tile(block().x),
        expert(0),
        begin(0),
        n_rows(0),
        sorted(product.c.constant(4) != 0u) {}
  WEFT_DEVICE void next() { tile += p.c.groups().x; }
  /// False where there is none.
  WEFT_DEVICE bool find() {
    begin = tile * tile_rows, n_rows = tile_rows;
    if (!sorted) {
      if (begin >= p.c.n_rows()) return false;
      n_rows = least(n_rows, p.c.n_rows() - begin);
      return true;
    }
    const uint* const tiles = p.c.at<const uint>(6);  // Their number; then expert, first pair, pairs.
    // In a cancelled step they may not be made: their memory has anything.
    if (tile >= least(tiles[0], p.c.n_rows())) return false;
    expert = tiles[4u + 4u * tile], begin = tiles[5u + 4u * tile];
    n_rows = least(tiles[6u + 4u * tile], tile_rows);
    return true;
  }
  /// Output row i of the tile; the last one past the end.
  WEFT_DEVICE uint row(uint i) const {
    const uint at = least(begin + least(i, n_rows - 1u), p.c.n_rows() - 1u);
    return sorted ? least(static_cast<uint>(p.c.ints(5)[at]), p.c.n_rows() - 1u) : at;
  }
};

/// For few rows: a block computes 16 outputs, and a thread a lane of two of them.
WEFT_KERNEL(128) matmul(Arguments arguments) {
  constexpr uint kSlots = 128 / Product::kLanes, kOutputs = 2 * kSlots;
  WEFT_SHARED float parts[kOutputs * (Product::kLanes + 1)];
  const Call c{arguments};
  if (!c.has_work()) return;
  const Product p(c);
  const uint t = thread(), lane = t % Product::kLanes, slot = t / Product::kLanes;
  for (uint row = block().y; row < c.n_rows(); row += c.groups().y) {
    const uint expert = p.expert_of(row);
    const float* const x = c.row(1, p.x_row(row), p.columns);
    barrier();
    for (uint i = 0; i < 2u; ++i) {
      const uint output = slot + i * kSlots;
      parts[output * (Product::kLanes + 1u) + lane] =
          p.lane_sum(p.weight_row(expert, block().x * kOutputs + output), x, lane);
    }
    barrier();
    if (t < kOutputs) {
      float y = 0.0f;
      for (uint l = 0; l < Product::kLanes; ++l) y += parts[t * (Product::kLanes + 1u) + l];
      p.store(row, block().x * kOutputs + t, y);
    }
  }
}

/// For many rows: a block computes a tile of outputs by rows, and a thread one element after another.
WEFT_KERNEL(256) matmul_tiles(Arguments arguments) {
  constexpr uint kThreads = 256;
  const Call c{arguments};
  if (!c.has_work()) return;
  const Product p(c);
  const uint tile_outputs = c.constant(1);
  for (RowTile tile(p, c.constant(2)); tile.find(); tile.next())
    for (uint i = thread(); i < tile_outputs * tile.n_rows; i += kThreads) {
      const uint o = block().y * tile_outputs + i % tile_outputs, row = tile.row(i / tile_outputs);
      if (o >= p.outputs) continue;
      const float* const x = c.row(1, p.x_row(row), p.columns);
      float y = 0.0f;
      for (uint lane = 0; lane < Product::kLanes; ++lane)
        y += p.lane_sum(p.weight_row(tile.expert, o), x, lane);
      p.store(row, o, y);
    }
}

/// What 32 columns add to a sum: products of integers, exact, times the scales.
template <uint kType>
WEFT_DEVICE float add_block(uint type, int low, int high, const float (&scales)[2], const float (&mins)[2],
                            BlockScale x, float sum) {
  const uint t = kType == kAnyType ? type : kType;
  float y = has_two_scales(t) ? fmaf(scales[1], static_cast<float>(high), scales[0] * static_cast<float>(low))
                              : scales[0] * static_cast<float>(low + high);
  if (t == kQ2_K) {
    y = fmaf(-mins[1], static_cast<float>(x.high()), fmaf(-mins[0], static_cast<float>(x.low()), y));
  } else if (has_min(t)) {
    y = fmaf(-mins[0], static_cast<float>(x.low() + x.high()), y);
  }
  return fmaf(x.scale, y, sum);
}

/// As matmul, of codes and quantised weights: each weight is unpacked once for up to kRows rows.
template <uint kRows, uint kType>
WEFT_KERNEL(128)
matmul_codes(Arguments arguments) {
  constexpr uint kLanes = Product::kLanes, kSlots = 128 / kLanes, kOutputs = 2 * kSlots;
  WEFT_SHARED float parts[kRows * kOutputs * (kLanes + 1)];
  const Call c{arguments};
  if (!c.has_work()) return;
  const Product p(c);
  const uint t = thread(), lane = t % kLanes, slot = t / kLanes;
  // Rows that have experts of their own are taken one by one.
  const uint step_rows = c.param(4) > 0u ? 1u : kRows;
  for (uint first = block().y * step_rows; first < c.n_rows(); first += c.groups().y * step_rows) {
    const uint count = least(step_rows, c.n_rows() - first), expert = p.expert_of(first);
    const Bytes weights[2] = {p.weight_row(expert, block().x * kOutputs + slot),
                              p.weight_row(expert, block().x * kOutputs + slot + kSlots)};
    float sums[kRows][2] = {};
    for (uint b = lane; b < p.n_blocks; b += kLanes) {
      Codes16 low[2], high[2];
      WEFT_UNROLL
      for (uint i = 0; i < 2u; ++i) {
        codes16<kType>(p.type, grids_of(c), weights[i], 2u * b, low[i]);
        codes16<kType>(p.type, grids_of(c), weights[i], 2u * b + 1u, high[i]);
      }
      WEFT_UNROLL
      for (uint r = 0; r < kRows; ++r) {
        if (r >= count) continue;
        const CodeRow x = code_row(c, 1, p.x_row(first + r), p.columns);
        const Words4 x_low = x.half(b, 0), x_high = x.half(b, 1);
        const BlockScale x_scale = x.scales()[b];
        WEFT_UNROLL
        for (uint i = 0; i < 2u; ++i) {
          int products[2] = {0, 0};
          WEFT_UNROLL
          for (uint w = 0; w < 4u; ++w) {
            products[0] = dot4(low[i].words[w], x_low.words[w], products[0]);
            products[1] = dot4(high[i].words[w], x_high.words[w], products[1]);
          }
          sums[r][i] = add_block<kType>(p.type, products[0], products[1], {low[i].scale, high[i].scale},
                                        {low[i].m, high[i].m}, x_scale, sums[r][i]);
        }
      }
    }
    barrier();
    WEFT_UNROLL
    for (uint r = 0; r < kRows; ++r)
      for (uint i = 0; i < 2u; ++i)
        parts[(r * kOutputs + slot + i * kSlots) * (kLanes + 1u) + lane] = sums[r][i];
    barrier();
    for (uint i = t; i < count * kOutputs; i += 128u) {
      float y = 0.0f;
      for (uint l = 0; l < kLanes; ++l) y += parts[i * (kLanes + 1u) + l];
      p.store(first + i / kOutputs, block().x * kOutputs + i % kOutputs, y);
    }
  }
}

/// As matmul_tiles, of codes and quantised weights, by products of matrices. A warp makes kFragments of 16
/// outputs by 8 rows; all 8 warps of a block make a tile.
template <uint kFragments, uint kType>
WEFT_KERNEL(256)
matmul_tiles_codes(Arguments arguments) {
  constexpr uint kThreads = 256, kMaxOutputs = 128, kMaxRows = 64;
  constexpr uint kStride = 12;  // Words of 32 codes, and four that spread rows over the banks.
  WEFT_SHARED uint w_codes[kMaxOutputs * kStride];
  WEFT_SHARED uint x_codes[kMaxRows * kStride];
  WEFT_SHARED float w_scales[kMaxOutputs * 2];
  WEFT_SHARED float w_mins[kMaxOutputs * 2];
  WEFT_SHARED BlockScale x_scales[kMaxRows];
  const Call c{arguments};
  if (!c.has_work()) return;
  const Product p(c);
  const uint tile_outputs = c.constant(1), tile_rows = c.constant(2), t = thread(), lane = t % 32u;
  const uint first_output = block().y * tile_outputs, first_fragment = t / 32u * kFragments;
  const uint across = tile_rows / 8u, type = kType == kAnyType ? p.type : kType;
  for (RowTile tile(p, tile_rows); tile.find(); tile.next()) {
    float totals[kFragments][4] = {};
    for (uint l = 0; l < least(Product::kLanes, p.n_blocks); ++l) {
      float sums[kFragments][4] = {};
      for (uint b = l; b < p.n_blocks; b += Product::kLanes) {
        barrier();
        for (uint i = t; i < tile_outputs * 2u; i += kThreads) {
          Codes16 codes;
          codes16<kType>(p.type, grids_of(c), p.weight_row(tile.expert, first_output + i / 2u),
                         2u * b + i % 2u, codes);
          for (uint w = 0; w < 4u; ++w) w_codes[i / 2u * kStride + i % 2u * 4u + w] = codes.words[w];
          w_scales[i] = codes.scale;
          w_mins[i] = codes.m;
        }
        for (uint i = t; i < tile_rows * 2u; i += kThreads) {
          const CodeRow x = code_row(c, 1, p.x_row(tile.row(i / 2u)), p.columns);
          const Words4 half = x.half(b, i % 2u);
          for (uint w = 0; w < 4u; ++w) x_codes[i / 2u * kStride + i % 2u * 4u + w] = half.words[w];
          if (i % 2u == 0u) x_scales[i / 2u] = x.scales()[b];
        }
        barrier();
        WEFT_UNROLL
        for (uint f = 0; f < kFragments; ++f) {
          const uint output = (first_fragment + f) / across * 16u + lane / 4u,
                     row = (first_fragment + f) % across * 8u;
          const uint *const w = w_codes + output * kStride + lane % 4u, *const w8 = w + 8u * kStride;
          const uint* const x = x_codes + (row + lane / 4u) * kStride + lane % 4u;
          int low[4], high[4] = {0, 0, 0, 0};
          if (has_two_scales(type)) {
            multiply16(low, w[0], w8[0], x[0]);
            multiply16(high, w[4], w8[4], x[4]);
          } else {
            multiply32(low, w[0], w8[0], w[4], w8[4], x[0], x[4]);
          }
          WEFT_UNROLL
          for (uint i = 0; i < 4u; ++i) {
            const uint o = output + i / 2u * 8u;
            sums[f][i] = add_block<kType>(p.type, low[i], high[i], {w_scales[2u * o], w_scales[2u * o + 1u]},
                                          {w_mins[2u * o], w_mins[2u * o + 1u]},
                                          x_scales[row + lane % 4u * 2u + i % 2u], sums[f][i]);
          }
        }
      }
      WEFT_UNROLL
      for (uint f = 0; f < kFragments; ++f)
        for (uint i = 0; i < 4u; ++i) totals[f][i] += sums[f][i];
    }
    WEFT_UNROLL
    for (uint f = 0; f < kFragments; ++f)
      for (uint i = 0; i < 4u; ++i) {
        const uint output = (first_fragment + f) / across * 16u + lane / 4u + i / 2u * 8u;
        const uint row = (first_fragment + f) % across * 8u + lane % 4u * 2u + i % 2u;
        if (row < tile.n_rows) p.store(tile.row(row), first_output + output, totals[f][i]);
      }
  }
}

/// Pairs of a row and an expert, sorted by expert, and tiles of pairs of one expert. One
/// block.
WEFT_KERNEL(256) sort_experts(Arguments arguments) {
  constexpr uint kThreads = 256, kEach = 4;  // Experts at most: kThreads * kEach.
  WEFT_SHARED uint counts[kThreads * kEach];
  WEFT_SHARED uint pair_sums[kThreads];
  WEFT_SHARED uint tile_sums[kThreads];
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint tile_rows = c.constant(0), t = thread(), experts = c.param(0), n = c.n_rows();
  const auto tiles_of = [&](uint pairs) { return (pairs + tile_rows - 1u) / tile_rows; };
  const auto expert_of = [&](uint i) { return least(static_cast<uint>(c.ints(0)[i]), experts - 1u); };
  for (uint e = t; e < kThreads * kEach; e += kThreads) counts[e] = 0u;
  barrier();
  for (uint i = t; i < n; i += kThreads) add_shared(&counts[expert_of(i)], 1u);
  barrier();
  uint pairs = 0, tiles = 0;
  for (uint j = 0; j < kEach; ++j) {
    pairs += counts[t * kEach + j];
    tiles += tiles_of(counts[t * kEach + j]);
  }
  pair_sums[t] = pairs, tile_sums[t] = tiles;
  for (uint step = 1u; step < kThreads; step *= 2u) {
    barrier();
    const uint pairs_before = t >= step ? pair_sums[t - step] : 0u,
               tiles_before = t >= step ? tile_sums[t - step] : 0u;
    barrier();
    pair_sums[t] += pairs_before, tile_sums[t] += tiles_before;
  }
  barrier();
  uint* const to = c.at<uint>(2);
  if (t == kThreads - 1u) to[0] = tile_sums[t];
  uint pair = pair_sums[t] - pairs, tile = tile_sums[t] - tiles;
  for (uint j = 0; j < kEach; ++j) {
    const uint e = t * kEach + j, count = counts[e];
    for (uint done = 0; done < count; done += tile_rows, ++tile) {
      uint* const one = to + 4u + 4u * tile;
      one[0] = e, one[1] = pair + done, one[2] = least(tile_rows, count - done);
    }
    counts[e] = pair;  // From now on where its next pair goes.
    pair += count;
  }
  barrier();
  // In whichever order pairs of an expert come, each is computed alone.
  for (uint i = t; i < n; i += kThreads)
    c.at<int>(1)[add_shared(&counts[expert_of(i)], 1u)] = static_cast<int>(i);
}

/// Products of matrices, both with strides: each result is summed in the order of k.
WEFT_KERNEL(256) batch_matmul(Arguments arguments) {
  constexpr uint kThreads = 256, kColumns = 64;
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint rows = c.word(0), columns = c.word(1), n_k = c.word(2), across = c.word(3), down = c.word(4),
             inner = c.word(5), tile_rows = 16u * c.constant(0);
  for (uint tile = block().x; tile < c.n_rows(); tile += c.groups().x) {
    const uint matrix = tile / (across * down);
    const uint first_row = tile / across % down * tile_rows, first_column = tile % across * kColumns;
    const float* const a = c.floats(0) + c.word(6) + matrix / inner * c.word(7) + matrix % inner * c.word(8);
    const float* const b =
        c.floats(1) + c.word(11) + matrix / inner * c.word(12) + matrix % inner * c.word(13);
    for (uint i = thread(); i < tile_rows * kColumns; i += kThreads) {
      const uint row = first_row + i / kColumns, column = first_column + i % kColumns;
      if (row >= rows || column >= columns) continue;
      float sum = 0.0f;
      for (uint k = 0; k < n_k; ++k)
        sum = fmaf(a[row * c.word(9) + k * c.word(10)], b[column * c.word(14) + k * c.word(15)], sum);
      c.floats(2)[(matrix * rows + row) * columns + column] = sum;
    }
  }
}

}  // namespace weft::cuda
