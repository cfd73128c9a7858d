#pragma once
// Kernels over whole rows: norms, rows by index, and products with weights. Tensors, params, constants and
// words as of their namesakes in vulkan/shaders.
#include "backend/cuda/kernels/call.h"
#include "backend/cuda/kernels/unpack.h"

namespace weft::cuda {

WEFT_DEVICE const std::uint16_t* grids_of(const Call& c) {
  return reinterpret_cast<const std::uint16_t*>(c.a.push.grids);
}

/// Groups of columns to root mean square 1, to mean 0 and variance 1, or to length 1, by a block each.
WEFT_KERNEL(128) norm(Arguments arguments) {
  constexpr uint kThreads = 128, kLayer = 1, kL2 = 2;  // As NormKind in graph/kinds.h.
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint kind = c.constant(0), columns = c.param(0), t = thread();
  const float eps = c.param_float(1), count = static_cast<float>(columns);
  const bool has_weight = c.param(2) != 0u, has_bias = c.param(3) != 0u;
  for (uint g = block().x; g < c.n_rows(); g += c.groups().x) {
    const float* const x = c.row(0, g, columns);
    float* const result = c.row(3, g, columns);
    float mean = 0.0f;
    if (kind == kLayer) {
      float sum = 0.0f;
      for (uint i = t; i < columns; i += kThreads) sum += x[i];
      mean = sum_of_block<kThreads>(sum) / count;
      // The rounding error, so that a row far from zero loses no digits.
      sum = 0.0f;
      for (uint i = t; i < columns; i += kThreads) sum += x[i] - mean;
      mean += sum_of_block<kThreads>(sum) / count;
    }
    float squares = 0.0f;
    for (uint i = t; i < columns; i += kThreads) squares += (x[i] - mean) * (x[i] - mean);
    squares = sum_of_block<kThreads>(squares);
    float scale = 1.0f / sqrtf(squares / count + eps);
    if (kind == kL2) scale = is_nan(squares) ? squares : 1.0f / larger(sqrtf(squares), eps);
    for (uint i = t; i < columns; i += kThreads) {
      float y = (x[i] - mean) * scale;
      if (has_weight) y *= c.floats(1)[i];
      if (has_bias) y += c.floats(2)[i];
      result[i] = y;
    }
  }
}

/// Rows of a table by index.
WEFT_KERNEL(64) get_rows(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint type = c.constant(0), columns = c.param(0), chunks = (columns + 15u) / 16u;
  for_each<64>(c, c.n_rows() * chunks, [&](uint i) {
    const uint row = i / chunks, chunk = i % chunks;
    const uint from = least(static_cast<uint>(c.ints(1)[row]), c.param(2) - 1u);
    float v[16];
    unpack16(type, grids_of(c), c.at<const std::uint8_t>(0, std::uint64_t{from} * c.param(1)), chunk, columns,
             v);
    float* const result = c.row(2, row, columns) + chunk * 16u;
    const uint n = least(16u, columns - chunk * 16u);
    for (uint j = 0; j < n; ++j) result[j] = v[j];
  });
}

// Products. Blocks of 32 columns are dealt to 16 lanes in turns; a lane adds its blocks in order, then the
// lanes are added in order, as in vulkan/shaders/products.glsl. So a row has the same bits whatever kernel
// makes it.

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
  WEFT_DEVICE Bytes weight_row(uint expert, uint o) const {
    return c.at<const std::uint8_t>(
        0, (std::uint64_t{least(expert, c.param(13) - 1u)} * outputs + least(o, outputs - 1u)) * c.param(2));
  }
  /// Adds a lane's blocks of a row to its sum.
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

/// Of few rows: a block makes 16 outputs, a thread a lane of two of them.
WEFT_KERNEL(128) matmul(Arguments arguments) {
  constexpr uint kSlots = 128 / Product::kLanes, kOutputs = 2 * kSlots;
  WEFT_SHARED float parts[kOutputs * (Product::kLanes + 1)];
  const Call c{arguments};
  if (!c.has_work()) return;
  const Product p(c);
  const uint t = thread(), lane = t % Product::kLanes, slot = t / Product::kLanes;
  const uint n_ids = c.param(4);
  const bool experts = n_ids > 0u;
  for (uint row = block().y; row < c.n_rows(); row += c.groups().y) {
    const uint expert = experts ? static_cast<uint>(c.ints(3)[row]) : 0u;
    const float* const x = c.row(1, experts && c.param(5) == 0u ? row / n_ids : row, p.columns);
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

/// Of many rows: a block makes a tile of outputs by rows, a thread an element after another.
WEFT_KERNEL(256) matmul_tiles(Arguments arguments) {
  constexpr uint kThreads = 256;
  const Call c{arguments};
  if (!c.has_work()) return;
  const Product p(c);
  const uint tile_outputs = c.constant(1), tile_rows = c.constant(2);
  const bool sorted = c.constant(4) != 0u;
  const uint* const tiles =
      sorted ? c.at<const uint>(6) : nullptr;  // Their number; then expert, first pair, pairs.
  for (uint tile = block().x;; tile += c.groups().x) {
    uint expert = 0, begin = tile * tile_rows, count = tile_rows;
    if (sorted) {
      if (tile >= tiles[0]) break;
      expert = tiles[4u + 4u * tile], begin = tiles[5u + 4u * tile], count = tiles[6u + 4u * tile];
    } else {
      if (begin >= c.n_rows()) break;
      count = least(count, c.n_rows() - begin);
    }
    for (uint i = thread(); i < tile_outputs * count; i += kThreads) {
      const uint o = block().y * tile_outputs + i % tile_outputs, at = begin + i / tile_outputs;
      const uint row = sorted ? least(static_cast<uint>(c.ints(5)[at]), c.n_rows() - 1u) : at;
      const float* const x = c.row(1, sorted && c.param(5) == 0u ? row / c.param(4) : row, p.columns);
      if (o >= p.outputs) continue;
      float y = 0.0f;
      for (uint lane = 0; lane < Product::kLanes; ++lane) y += p.lane_sum(p.weight_row(expert, o), x, lane);
      p.store(row, o, y);
    }
  }
}

/// Pairs of a row and an expert, sorted by expert, and tiles of at most so many pairs of one expert each. One
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
