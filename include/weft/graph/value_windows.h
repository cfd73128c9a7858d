// Since 0.1
#pragma once
// Functions for images {n, c, h, w}: convolutions, pooling, resizing and normalisation. Names and parameters
// are as in torch.nn.functional; the rules of value.h hold. A signal {n, c, t} is treated as an image of
// height 1.
#include <cstdint>
#include <optional>

#include "weft/graph/value.h"

#pragma GCC visibility push(default)

namespace weft {

/// x {n, c, h, w}, weight {o, c / groups, kh, kw}, bias {o}?: see ops::Conv2d.
///   conv2d(x, w, b, {.stride = 2, .padding = {1, 0}})
Value conv2d(Value x, Value weight, Value bias = {}, const ops::Conv2d& params = {},
             Where where = Where::current());
/// x {n, c, h, w}, weight {c, o / groups, kh, kw}, bias {o}?: see ops::ConvTranspose2d.
Value conv_transpose2d(Value x, Value weight, Value bias = {}, const ops::ConvTranspose2d& params = {},
                       Where where = Where::current());

/// Parameters of conv1d, as in torch.nn.functional.
struct Conv1d {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
struct ConvTranspose1d {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
/// x {n, c, t}, weight {o, c / groups, 1, k}, bias {o}? -> {n, o, t'}. torch's weight {o, c / groups, k} has
/// the same bytes. For the rows of one signal use conv1d_channels_last (value.h).
///   conv1d(x, w, b, {.stride = 2, .groups = 4})
Value conv1d(Value x, Value weight, Value bias = {}, const Conv1d& params = {},
             Where where = Where::current());
/// x {n, c, t}, weight {c, o / groups, 1, k}, bias {o}? -> {n, o, t'}
Value conv_transpose1d(Value x, Value weight, Value bias = {}, const ConvTranspose1d& params = {},
                       Where where = Where::current());

/// The default stride is the kernel's size.
Value max_pool2d(Value x, HeightWidth kernel, std::optional<HeightWidth> stride = {}, HeightWidth padding = 0,
                 Where where = Where::current());
Value avg_pool2d(Value x, HeightWidth kernel, std::optional<HeightWidth> stride = {}, HeightWidth padding = 0,
                 bool count_include_pad = true, Where where = Where::current());

/// Multiplies the height and width.
Value upsample_nearest(Value x, HeightWidth scale, Where where = Where::current());
Value upsample_bilinear(Value x, HeightWidth scale, bool align_corners = false,
                        Where where = Where::current());
/// Resizes to a height and width, as torch.nn.functional.interpolate.
Value resize_nearest(Value x, Dim height, Dim width, Where where = Where::current());
Value resize_bilinear(Value x, Dim height, Dim width, bool align_corners = false,
                      Where where = Where::current());

/// Batch normalisation at inference: (x - mean) / sqrt(var + eps) * weight + bias, with mean, var, weight and
/// bias {c}.
Value batch_norm(Value x, Value mean, Value var, Value weight = {}, Value bias = {}, float eps = 1e-5f,
                 Where where = Where::current());
/// Normalises each image's `groups` groups of channels to mean 0 and variance 1, then multiplies by weight
/// {c} and adds bias {c}.
Value group_norm(Value x, std::int64_t groups, Value weight = {}, Value bias = {}, float eps = 1e-5f,
                 Where where = Where::current());

}  // namespace weft

#pragma GCC visibility pop
