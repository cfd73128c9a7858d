#include "backend/conformance/window_truth.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/to_size.h"

namespace weft::conformance {
namespace {

std::int64_t size_of(const Tensor& x, std::size_t axis) { return static_cast<std::int64_t>(x.dims[axis]); }
std::size_t unsigned_of(std::int64_t n) { return to_size(n); }

double& element(Tensor& x, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return x.values[unsigned_of(((n * size_of(x, 1) + c) * size_of(x, 2) + h) * size_of(x, 3) + w)];
}
double element(const Tensor& x, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return x.values[unsigned_of(((n * size_of(x, 1) + c) * size_of(x, 2) + h) * size_of(x, 3) + w)];
}
bool is_inside(const Tensor& x, std::int64_t h, std::int64_t w) {
  return h >= 0 && h < size_of(x, 2) && w >= 0 && w < size_of(x, 3);
}

Tensor pictures(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return Tensor({unsigned_of(n), unsigned_of(c), unsigned_of(h), unsigned_of(w)});
}

template <typename F>
void for_each_place(const Tensor& x, F f) {
  for (std::int64_t n = 0; n < size_of(x, 0); ++n)
    for (std::int64_t c = 0; c < size_of(x, 1); ++c)
      for (std::int64_t h = 0; h < size_of(x, 2); ++h)
        for (std::int64_t w = 0; w < size_of(x, 3); ++w) f(n, c, h, w);
}

/// Where a result comes from, in elements.
double source(const ops::Resize2d& op, std::int64_t i, std::int64_t size, std::int64_t out_size) {
  const auto place = static_cast<double>(i), from = static_cast<double>(size),
             to = static_cast<double>(out_size);
  if (op.kind == ResizeKind::kNearest) return static_cast<double>(i * size / out_size);
  if (op.align_corners) return out_size > 1 ? place * (from - 1.0) / (to - 1.0) : 0.0;
  return std::max((place + 0.5) * from / to - 0.5, 0.0);
}

}  // namespace

Tensor conv2d(const ops::Conv2d& op, const Tensor& x, const Tensor& weight, const Values& bias) {
  const std::int64_t kh = size_of(weight, 2), kw = size_of(weight, 3), in_group = size_of(weight, 1);
  const auto side = [](std::int64_t size, std::int64_t k, std::int64_t stride, std::int64_t padding,
                       std::int64_t dilation) {
    return (size + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
  };
  Tensor y = pictures(size_of(x, 0), size_of(weight, 0),
                      side(size_of(x, 2), kh, op.stride.h, op.padding.h, op.dilation.h),
                      side(size_of(x, 3), kw, op.stride.w, op.padding.w, op.dilation.w));
  const std::int64_t out_group = size_of(weight, 0) / op.groups;
  for_each_place(y, [&](std::int64_t n, std::int64_t o, std::int64_t h, std::int64_t w) {
    double sum = bias.empty() ? 0.0 : bias[unsigned_of(o)];
    for (std::int64_t c = 0; c < in_group; ++c)
      for (std::int64_t i = 0; i < kh; ++i)
        for (std::int64_t j = 0; j < kw; ++j) {
          const std::int64_t row = h * op.stride.h - op.padding.h + i * op.dilation.h;
          const std::int64_t column = w * op.stride.w - op.padding.w + j * op.dilation.w;
          if (is_inside(x, row, column))
            sum += element(x, n, o / out_group * in_group + c, row, column) * element(weight, o, c, i, j);
        }
    element(y, n, o, h, w) = sum;
  });
  return y;
}

Tensor conv_transpose2d(const ops::ConvTranspose2d& op, const Tensor& x, const Tensor& weight,
                        const Values& bias) {
  const std::int64_t kh = size_of(weight, 2), kw = size_of(weight, 3), out_group = size_of(weight, 1);
  const auto side = [](std::int64_t size, std::int64_t k, std::int64_t stride, std::int64_t padding,
                       std::int64_t dilation, std::int64_t more) {
    return (size - 1) * stride - 2 * padding + dilation * (k - 1) + more + 1;
  };
  Tensor y = pictures(size_of(x, 0), out_group * op.groups,
                      side(size_of(x, 2), kh, op.stride.h, op.padding.h, op.dilation.h, op.output_padding.h),
                      side(size_of(x, 3), kw, op.stride.w, op.padding.w, op.dilation.w, op.output_padding.w));
  if (!bias.empty())
    for_each_place(y, [&](std::int64_t n, std::int64_t o, std::int64_t h, std::int64_t w) {
      element(y, n, o, h, w) = bias[unsigned_of(o)];
    });
  const std::int64_t in_group = size_of(x, 1) / op.groups;
  for_each_place(x, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    for (std::int64_t o = 0; o < out_group; ++o)
      for (std::int64_t i = 0; i < kh; ++i)
        for (std::int64_t j = 0; j < kw; ++j) {
          const std::int64_t row = h * op.stride.h - op.padding.h + i * op.dilation.h;
          const std::int64_t column = w * op.stride.w - op.padding.w + j * op.dilation.w;
          if (is_inside(y, row, column))
            element(y, n, c / in_group * out_group + o, row, column) +=
                element(x, n, c, h, w) * element(weight, c, o, i, j);
        }
  });
  return y;
}

Tensor pool2d(const ops::Pool2d& op, const Tensor& x) {
  Tensor y = pictures(size_of(x, 0), size_of(x, 1),
                      (size_of(x, 2) + 2 * op.padding.h - op.kernel.h) / op.stride.h + 1,
                      (size_of(x, 3) + 2 * op.padding.w - op.kernel.w) / op.stride.w + 1);
  for_each_place(y, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < op.kernel.h; ++i)
      for (std::int64_t j = 0; j < op.kernel.w; ++j) {
        const std::int64_t row = h * op.stride.h - op.padding.h + i,
                           column = w * op.stride.w - op.padding.w + j;
        if (!is_inside(x, row, column)) continue;
        const double value = element(x, n, c, row, column);
        if (!std::isnan(largest) && (std::isnan(value) || value > largest)) largest = value;
        sum += value;
        ++count;
      }
    const std::int64_t divisor = op.count_padding ? op.kernel.h * op.kernel.w : count;
    element(y, n, c, h, w) = op.kind == PoolKind::kMax ? largest : sum / static_cast<double>(divisor);
  });
  return y;
}

Tensor resize2d(const ops::Resize2d& op, const Tensor& x) {
  Tensor y = pictures(size_of(x, 0), size_of(x, 1), op.height.constant(), op.width.constant());
  for_each_place(y, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    const double row = source(op, h, size_of(x, 2), size_of(y, 2)),
                 column = source(op, w, size_of(x, 3), size_of(y, 3));
    const auto top = static_cast<std::int64_t>(row), left = static_cast<std::int64_t>(column);
    // A side that keeps its size has nothing between its elements.
    const auto next = [&](std::int64_t i, std::size_t axis) {
      return x.dims[axis] == y.dims[axis] ? i : std::min(i + 1, size_of(x, axis) - 1);
    };
    const std::int64_t bottom = next(top, 2), right = next(left, 3);
    const double down = row - static_cast<double>(top), across = column - static_cast<double>(left);
    const auto along = [&](std::int64_t i) {
      return element(x, n, c, i, left) * (1.0 - across) + element(x, n, c, i, right) * across;
    };
    element(y, n, c, h, w) = op.kind == ResizeKind::kNearest
                                 ? element(x, n, c, top, left)
                                 : along(top) * (1.0 - down) + along(bottom) * down;
  });
  return y;
}

}  // namespace weft::conformance
