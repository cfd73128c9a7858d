#include "backend/cpu/launches/window_axis.h"

#include <algorithm>

namespace weft::cpu {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

struct Sizes {
  std::int64_t band, whole, apart;
};
Sizes sizes_of(const WindowAxis& axis, std::int64_t n_results, std::int64_t unit) {
  Sizes sizes;
  sizes.band = n_results == 0 ? 0 : (n_results - 1) * axis.step + 1;
  const std::int64_t last =
      axis.offsets.empty() ? 0 : *std::max_element(axis.offsets.begin(), axis.offsets.end());
  sizes.whole = round_up(last + sizes.band, unit);
  sizes.apart = static_cast<std::int64_t>(axis.offsets.size()) * round_up(sizes.band, unit);
  return sizes;
}

}  // namespace

WindowAxis convolution_axis(std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                            std::int64_t dilation) {
  WindowAxis axis;
  for (std::int64_t tap = 0; tap < kernel; ++tap) {
    axis.taps.push_back(tap);
    axis.offsets.push_back(tap * dilation);
  }
  axis.origin = -padding;
  axis.step = stride;
  return axis;
}

std::vector<WindowAxis> transposed_axes(std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                                        std::int64_t dilation) {
  std::vector<WindowAxis> axes;
  // A result at y has y + padding = stride * q + remainder, and reads element q - back of a tap whose place
  // tap * dilation is stride * back + remainder.
  for (std::int64_t remainder = 0; remainder < stride; ++remainder) {
    WindowAxis& axis = axes.emplace_back();
    std::int64_t farthest = 0;
    for (std::int64_t tap = 0; tap < kernel; ++tap)
      if (tap * dilation % stride == remainder) {
        axis.taps.push_back(tap);
        farthest = tap * dilation / stride;
      }
    for (const std::int64_t tap : axis.taps) axis.offsets.push_back(farthest - tap * dilation / stride);
    const std::int64_t first = padding <= remainder ? 0 : (padding - remainder + stride - 1) / stride;
    axis.origin = first - farthest;
    axis.out_first = stride * first + remainder - padding;
    axis.out_step = stride;
  }
  return axes;
}

WindowLayout lay_out(const WindowAxis& axis, std::int64_t n_results, std::int64_t unit) {
  const Sizes sizes = sizes_of(axis, n_results, unit);
  WindowLayout layout;
  if (axis.offsets.empty()) return layout;
  layout.size = std::min(sizes.whole, sizes.apart);
  if (sizes.whole <= sizes.apart) {
    layout.bands.push_back({0, 0, sizes.whole});
    layout.positions = axis.offsets;
    return layout;
  }
  for (const std::int64_t offset : axis.offsets) {
    const std::int64_t length = round_up(sizes.band, unit);
    layout.positions.push_back(static_cast<std::int64_t>(layout.positions.size()) * length);
    layout.bands.push_back({offset, layout.positions.back(), length});
  }
  return layout;
}

std::int64_t layout_size(const WindowAxis& axis, std::int64_t n_results, std::int64_t unit) {
  const Sizes sizes = sizes_of(axis, n_results, unit);
  return std::min(sizes.whole, sizes.apart);
}

}  // namespace weft::cpu
