// Since 0.1
#pragma once
// Ops over windows of a signal's rows, and of images {n, c, h, w}: n images with c channels, h rows and w
// columns. n, h and w may be symbols. If an image in a step is smaller than a window by less than the stride,
// the result is empty. A constant size like that is refused.
#include <cstdint>
#include <string_view>

#include "weft/graph/kinds.h"
#include "weft/graph/shape.h"

#pragma GCC visibility push(default)

namespace weft {

/// A number for the height and one for the width: {3, 1}, or 2 for both.
struct HeightWidth {
  constexpr HeightWidth(std::int64_t both) : h(both), w(both) {}  // NOLINT: one number for both
  constexpr HeightWidth(std::int64_t height, std::int64_t width) : h(height), w(width) {}
  std::int64_t h, w;
  friend bool operator==(const HeightWidth&, const HeightWidth&) = default;
};

}  // namespace weft

namespace weft::ops {

/// x {t, c} -> {(t + 2 * padding - kernel) / stride + 1, kernel * c}. Row r joins the `kernel` rows of x from
/// r * stride - padding on, with zeros outside x. A convolution over rows is the product of the result with
/// its weights.
struct Unfold {
  static constexpr std::string_view kName = "unfold";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  friend bool operator==(const Unfold&, const Unfold&) = default;
};

/// x {n, c, h, w}, weight {o, c / groups, kh, kw}, bias {o}? -> {n, o, h', w'}, with h' = (h + 2 * padding -
/// dilation * (kh - 1) - 1) / stride + 1, and w' alike. Images are padded with zeros. Channels of a group are
/// computed from the input channels of that group. The weight is F32 or F16, and may be a result.
struct Conv2d {
  static constexpr std::string_view kName = "conv2d";
  static constexpr int kMinInputs = 2, kMaxInputs = 3;
  HeightWidth stride = 1;
  HeightWidth padding = 0;
  HeightWidth dilation = 1;
  std::int64_t groups = 1;
  friend bool operator==(const Conv2d&, const Conv2d&) = default;
};

/// x {n, c, h, w}, weight {c, o / groups, kh, kw}, bias {o}? -> {n, o, h', w'}, with h' = (h - 1) * stride -
/// 2 * padding + dilation * (kh - 1) + output_padding + 1, and w' alike. Each element of x adds its multiple
/// of the kernel, `stride` apart; elements in the padding are cut off. `weight` must be a weight.
struct ConvTranspose2d {
  static constexpr std::string_view kName = "conv_transpose2d";
  static constexpr int kMinInputs = 2, kMaxInputs = 3;
  static constexpr std::int64_t kMaxStride = 64;
  HeightWidth stride = 1;
  HeightWidth padding = 0;
  HeightWidth output_padding = 0;  ///< Less than the stride or the dilation.
  HeightWidth dilation = 1;
  std::int64_t groups = 1;
  friend bool operator==(const ConvTranspose2d&, const ConvTranspose2d&) = default;
};

/// x {n, c, h, w} -> {n, c, h', w'}, with h' = (h + 2 * padding - kernel) / stride + 1, and w' alike: the
/// largest element of each window (NaN if it has one), or the mean. Padding is at most half the kernel.
struct Pool2d {
  static constexpr std::string_view kName = "pool2d";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  PoolKind kind = PoolKind::kMax;
  HeightWidth kernel = 1;
  HeightWidth stride = 1;
  HeightWidth padding = 0;
  bool count_padding = true;  ///< Whether means count the padding: they divide by the kernel's size.
  friend bool operator==(const Pool2d&, const Pool2d&) = default;
};

/// x {n, c, h, w} -> {n, c, height, width}. Row y of the result comes from row h / height * y of x (kNearest,
/// rounded down). With kBilinear it comes from h / height * (y + 1/2) - 1/2, at least 0; with align_corners
/// from (h - 1) / (height - 1) * y. Columns alike. Images without elements give zeros.
struct Resize2d {
  static constexpr std::string_view kName = "resize2d";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  ResizeKind kind = ResizeKind::kNearest;
  Dim height = 1, width = 1;
  bool align_corners = false;  ///< With kBilinear only.
  friend bool operator==(const Resize2d&, const Resize2d&) = default;
};

}  // namespace weft::ops

#pragma GCC visibility pop
