#include "graph/window_rules.h"

namespace weft {
namespace {

/// Limit of kernels, strides, paddings and dilations, so that products of a few of them stay far below 64
/// bits.
constexpr std::int64_t kMost = 1 << 20;

bool within(const HeightWidth& numbers, std::int64_t least, std::int64_t most) {
  return numbers.h >= least && numbers.h <= most && numbers.w >= least && numbers.w <= most;
}

void images(const Inputs& in) {
  in.any_f32(0);
  in.require(in.shape(0).rank() == 4, 0, "must be images {n, c, h, w}");
}

/// A weight {outer, inner, kh, kw}.
HeightWidth kernel_of(const Inputs& in) {
  in.require(in.dtype(1) == DType::kF32 || in.dtype(1) == DType::kF16, 1, "must be f32 or f16");
  in.require(in.shape(1).rank() == 4, 1, "must have four dimensions");
  for (int i = 0; i < 4; ++i) in.require(in.size(1, i) > 0, 1, "must have elements");
  const HeightWidth kernel(in.size(1, 2), in.size(1, 3));
  in.require(within(kernel, 1, kMost), 1, "must have kernels of at most 2^20 rows and columns");
  return kernel;
}

/// The number of windows of `extent` elements along a side.
Dim windows(const Inputs& in, const Dim& size, std::int64_t extent, std::int64_t stride,
            std::int64_t padding) {
  in.require(!size.is_constant() || size.constant() + 2 * padding >= extent, 0,
             "must be at least as large as the kernel, with its padding");
  return (size + (2 * padding - extent)) / stride + 1;
}

std::int64_t extent(std::int64_t kernel, std::int64_t dilation) { return dilation * (kernel - 1) + 1; }

}  // namespace

ValueType rule(const ops::Unfold& op, const Inputs& in) {
  in.f32(0);
  in.require(in.shape(0).rank() == 2, 0, "must be a matrix");
  in.require(op.kernel > 0 && op.kernel <= kMost && op.stride > 0 && op.stride <= kMost && op.padding >= 0 &&
                 op.padding < op.kernel,
             0, "needs a kernel and a stride from 1 to 2^20, and less padding than the kernel");
  const Dim rows = (in.shape(0)[0] + (2 * op.padding - op.kernel)) / op.stride + 1;
  return f32({rows, (Dim(op.kernel) * in.shape(0)[1]).constant()});
}

ValueType rule(const ops::Conv2d& op, const Inputs& in) {
  images(in);
  const HeightWidth kernel = kernel_of(in);
  in.require(within(op.stride, 1, kMost) && within(op.dilation, 1, kMost) && within(op.padding, 0, kMost), 0,
             "needs strides and dilations from 1 to 2^20, and padding from 0 to 2^20");
  const std::int64_t channels = in.size(0, 1), outputs = in.size(1, 0);
  in.require(op.groups > 0 && channels % op.groups == 0, 0, "must have channels for groups of equal size");
  in.require(outputs % op.groups == 0, 1, "must have outputs for groups of equal size");
  in.require(in.size(1, 1) == channels / op.groups, 1, "must be {outputs, channels of a group, kh, kw}");
  if (in.has(2)) in.vector(2, outputs);
  const Shape& x = in.shape(0);
  return f32({x[0], outputs, windows(in, x[2], extent(kernel.h, op.dilation.h), op.stride.h, op.padding.h),
              windows(in, x[3], extent(kernel.w, op.dilation.w), op.stride.w, op.padding.w)});
}

ValueType rule(const ops::ConvTranspose2d& op, const Inputs& in) {
  images(in);
  const HeightWidth kernel = kernel_of(in);
  in.require(
      within(op.stride, 1, op.kMaxStride) && within(op.dilation, 1, kMost) && within(op.padding, 0, kMost), 0,
      "needs strides from 1 to 64, dilations from 1 to 2^20, and padding from 0 to 2^20");
  const std::int64_t channels = in.size(0, 1);
  in.require(op.groups > 0 && channels % op.groups == 0, 0, "must have channels for groups of equal size");
  in.require(in.size(1, 0) == channels, 1, "must be {channels, outputs of a group, kh, kw}");
  const std::int64_t outputs = (Dim(op.groups) * in.shape(1)[1]).constant();
  if (in.has(2)) in.vector(2, outputs);
  const auto side = [&](const Dim& size, std::int64_t taps, std::int64_t stride, std::int64_t padding,
                        std::int64_t dilation, std::int64_t more) {
    in.require(more >= 0 && (more < stride || more < dilation), 0,
               "needs output_padding from 0 on, below the stride or the dilation");
    const Dim result = size * Dim(stride) + (extent(taps, dilation) - stride - 2 * padding + more);
    in.require(!size.is_constant() || size.constant() == 0 || result.constant() > 0, 0,
               "must be large enough that padding leaves a part of the result");
    return result;
  };
  const Shape& x = in.shape(0);
  return f32({x[0], outputs,
              side(x[2], kernel.h, op.stride.h, op.padding.h, op.dilation.h, op.output_padding.h),
              side(x[3], kernel.w, op.stride.w, op.padding.w, op.dilation.w, op.output_padding.w)});
}

ValueType rule(const ops::Pool2d& op, const Inputs& in) {
  in.known(op.kind, PoolKind::kMean);
  images(in);
  in.require(within(op.kernel, 1, kMost) && within(op.stride, 1, kMost) && within(op.padding, 0, kMost), 0,
             "needs a kernel and strides from 1 to 2^20, and no negative padding");
  in.require(op.kernel.h * op.kernel.w <= kMost, 0, "needs a kernel of at most 2^20 elements");
  in.require(2 * op.padding.h <= op.kernel.h && 2 * op.padding.w <= op.kernel.w, 0,
             "needs padding of at most half of the kernel");
  const Shape& x = in.shape(0);
  return f32({x[0], x[1], windows(in, x[2], op.kernel.h, op.stride.h, op.padding.h),
              windows(in, x[3], op.kernel.w, op.stride.w, op.padding.w)});
}

ValueType rule(const ops::Resize2d& op, const Inputs& in) {
  in.known(op.kind, ResizeKind::kBilinear);
  images(in);
  const Shape& x = in.shape(0);
  for (const Dim* const size : {&op.height, &op.width})
    in.require(!size->is_constant() || size->constant() > 0, 0, "must be given a size above 0");
  for (const Dim* const size : {&x[2], &x[3]})
    in.require(!size->is_constant() || size->constant() > 0, 0, "must have elements");
  in.require(op.kind == ResizeKind::kBilinear || !op.align_corners, 0,
             "can have its corners aligned by bilinear interpolation alone");
  return f32({x[0], x[1], op.height, op.width});
}

}  // namespace weft
