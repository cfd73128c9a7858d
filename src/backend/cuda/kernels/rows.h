#pragma once
// Kernels over whole rows: norms, and rows by index. Tensors, params, constants and
// words as of their namesakes in vulkan/shaders.
#include "backend/cuda/kernels/codes.h"

namespace weft::cuda {

/// Groups of columns to root mean square 1, to mean 0 and variance 1, or to length 1, by a block each.
WEFT_KERNEL(128) norm(Arguments arguments) {
  constexpr uint kThreads = 128, kLayer = 1, kL2 = 2;  // As NormKind in graph/kinds.h.
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint kind = c.constant(0), columns = c.param(0), t = thread();
  const float eps = c.param_float(1), count = static_cast<float>(columns);
  const bool has_weight = c.param(2) != 0u, has_bias = c.param(3) != 0u;
  const bool has_floats = c.constant(1) != 0u, has_codes = c.constant(2) != 0u;
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
    const auto value = [&](uint i) {
      float y = (x[i] - mean) * scale;
      if (has_weight) y *= c.floats(1)[i];
      if (has_bias) y += c.floats(2)[i];
      if (has_floats) result[i] = y;
      return y;
    };
    if (has_codes) {
      for (uint b = t; b < columns / kBlock; b += kThreads)
        store_codes(code_row(c, 4, g, columns), b, [&](uint i) { return value(b * kBlock + i); });
    } else {
      for (uint i = t; i < columns; i += kThreads) value(i);
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

}  // namespace weft::cuda
