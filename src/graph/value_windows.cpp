// Graph functions for images.
#include "weft/graph/value_windows.h"

#include <string>
#include <utility>
#include <vector>

#include "graph/operands.h"
#include "graph/refuse.h"
#include "weft/error.h"

namespace weft {
namespace {

/// A value {n, c, h, w} that is there.
void check_images(const char* op, Value x, const Where& where) {
  check(op, x, {}, where);
  if (x.rank() != 4) refuse(std::string(op) + ": " + text(x) + " must be images {n, c, h, w}", where);
}

Value resize(const char* op, ResizeKind kind, Value x, Dim height, Dim width, bool align_corners,
             const Where& where) {
  check_images(op, x, where);
  check(op, x, {height, width}, where);
  return apply(ops::Resize2d{kind, std::move(height), std::move(width), align_corners}, {x}, where);
}
Value resize(const char* op, ResizeKind kind, Value x, HeightWidth scale, bool align_corners,
             const Where& where) {
  check_images(op, x, where);
  if (scale.h < 1 || scale.w < 1 || scale.h > (1 << 20) || scale.w > (1 << 20))
    refuse(std::string(op) + ": it needs a scale from 1 to 2^20", where);
  return resize(op, kind, x, x.size(2) * Dim(scale.h), x.size(3) * Dim(scale.w), align_corners, where);
}

/// Vectors with an entry for each channel, or none.
void check_vectors(const char* op, Value x, std::initializer_list<Value> vectors, const Where& where) {
  for (const Value& vector : vectors)
    if (vector && (vector.rank() != 1 || !(vector.size(0) == x.size(1))))
      refuse(std::string(op) + ": " + text(vector) + " must have one entry for each channel of " + text(x),
             where);
}
Value scale_and_shift(Value x, Value weight, Value bias, const Where& where) {
  const Shape each = {x.size(1), 1, 1};
  if (weight) x = Operand(x, where) * reshape(weight, each, where);
  if (bias) x = Operand(x, where) + reshape(bias, each, where);
  return x;
}

/// Signals {n, c, t} as images of height 1, and back.
Value as_images(const char* op, Value x, const Where& where) {
  check(op, x, {}, where);
  if (x.rank() != 3) refuse(std::string(op) + ": " + text(x) + " must be signals {n, c, t}", where);
  return unsqueeze(x, 2, where);
}
/// Reports errors of the shape rule for images in terms of the given signals.
void check_signals(const char* op_name, const Op& op, Value images, Value x, Value weight, Value bias,
                   const Where& where) {
  check(op_name, weight, {}, where);
  std::vector<ValueType> types;
  for (const Value& input : {images, weight, bias})
    if (input) types.push_back({input.dtype(), input.shape()});
  try {
    infer(op, types);
  } catch (const Error& error) {
    const std::string reason = std::string(error.what()).substr(to_string(op).size());
    refuse(op_name + reason + " (signals " + text(x) + ", weight " + text(weight) +
               (bias ? ", bias " + text(bias) : "") + ")",
           where);
  }
}
Value as_signals(Value images, const Where& where) { return squeeze(images, 2, where); }

}  // namespace

Value conv2d(Value x, Value weight, Value bias, const ops::Conv2d& params, Where where) {
  return apply(params, {x, weight, bias}, where);
}
Value conv_transpose2d(Value x, Value weight, Value bias, const ops::ConvTranspose2d& params, Where where) {
  return apply(params, {x, weight, bias}, where);
}

Value conv1d(Value x, Value weight, Value bias, const Conv1d& params, Where where) {
  const ops::Conv2d op = {.stride = {1, params.stride},
                          .padding = {0, params.padding},
                          .dilation = {1, params.dilation},
                          .groups = params.groups};
  const Value images = as_images("conv1d", x, where);
  check_signals("conv1d", op, images, x, weight, bias, where);
  return as_signals(conv2d(images, weight, bias, op, where), where);
}
Value conv_transpose1d(Value x, Value weight, Value bias, const ConvTranspose1d& params, Where where) {
  const ops::ConvTranspose2d op = {.stride = {1, params.stride},
                                   .padding = {0, params.padding},
                                   .output_padding = {0, params.output_padding},
                                   .dilation = {1, params.dilation},
                                   .groups = params.groups};
  const Value images = as_images("conv_transpose1d", x, where);
  check_signals("conv_transpose1d", op, images, x, weight, bias, where);
  return as_signals(conv_transpose2d(images, weight, bias, op, where), where);
}

Value max_pool2d(Value x, HeightWidth kernel, std::optional<HeightWidth> stride, HeightWidth padding,
                 Where where) {
  return apply(ops::Pool2d{PoolKind::kMax, kernel, stride.value_or(kernel), padding}, {x}, where);
}
Value avg_pool2d(Value x, HeightWidth kernel, std::optional<HeightWidth> stride, HeightWidth padding,
                 bool count_include_pad, Where where) {
  return apply(ops::Pool2d{PoolKind::kMean, kernel, stride.value_or(kernel), padding, count_include_pad}, {x},
               where);
}

Value upsample_nearest(Value x, HeightWidth scale, Where where) {
  return resize("upsample_nearest", ResizeKind::kNearest, x, scale, false, where);
}
Value resize_nearest(Value x, Dim height, Dim width, Where where) {
  return resize("resize_nearest", ResizeKind::kNearest, x, std::move(height), std::move(width), false, where);
}
Value upsample_bilinear(Value x, HeightWidth scale, bool align_corners, Where where) {
  return resize("upsample_bilinear", ResizeKind::kBilinear, x, scale, align_corners, where);
}
Value resize_bilinear(Value x, Dim height, Dim width, bool align_corners, Where where) {
  return resize("resize_bilinear", ResizeKind::kBilinear, x, std::move(height), std::move(width),
                align_corners, where);
}

Value batch_norm(Value x, Value mean, Value var, Value weight, Value bias, float eps, Where where) {
  check_images("batch_norm", x, where);
  if (!mean || !var) refuse("batch_norm: it needs the mean and the variance of each channel", where);
  check_vectors("batch_norm", x, {mean, var, weight, bias}, where);
  Value scale = rsqrt(Operand(var, where) + eps, where);
  if (weight) scale = Operand(scale, where) * weight;
  Value shift = -Operand(Operand(mean, where) * scale, where);
  if (bias) shift = Operand(shift, where) + bias;
  return scale_and_shift(x, scale, shift, where);
}

Value group_norm(Value x, std::int64_t groups, Value weight, Value bias, float eps, Where where) {
  check_images("group_norm", x, where);
  const Dim channels = x.size(1);
  if (groups < 1 || !channels.is_constant() || channels.constant() % groups != 0)
    refuse("group_norm: " + text(x) + " must have channels for groups of equal size", where);
  check_vectors("group_norm", x, {weight, bias}, where);
  const Dim of_group = channels / groups * x.size(2) * x.size(3), all = x.size(0) * Dim(groups);
  Value y = reshape(x, {all, of_group}, where);
  if (of_group.is_constant()) {
    y = layer_norm(y, {}, {}, eps, where);
  } else {
    y = Operand(y, where) - mean(y, {-1}, true, where);
    const Value spread = Operand(mean(square(y, where), {-1}, true, where), where) + eps;
    y = Operand(y, where) * rsqrt(spread, where);
  }
  return scale_and_shift(reshape(y, x.shape(), where), weight, bias, where);
}

}  // namespace weft
