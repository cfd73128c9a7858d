#include "backend/cpu/launches/window_axis.h"

#include <algorithm>

namespace weft::cpu {
namespace {

/// From the first element that n results read to the last.
std::int64_t reach(const WindowAxis& axis, std::int64_t n_results) {
  if (axis.offsets.empty() || n_results == 0) return 0;
  return *std::max_element(axis.offsets.begin(), axis.offsets.end()) + (n_results - 1) * axis.step + 1;
}
std::int64_t of_remainder(const WindowAxis& axis, std::int64_t n_results) {
  return (reach(axis, n_results) + axis.step - 1) / axis.step;
}
std::int64_t of_taps(const WindowAxis& axis, std::int64_t n_results) {
  return static_cast<std::int64_t>(axis.offsets.size()) * n_results;
}

WindowLayout lay_out_taps(const WindowAxis& axis, std::int64_t n_results) {
  WindowLayout layout;
  for (const std::int64_t offset : axis.offsets) {
    layout.bands.push_back({offset, axis.step, layout.size, n_results});
    layout.positions.push_back(layout.size);
    layout.size += n_results;
  }
  return layout;
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
  // A result at y has y + padding = stride * q + remainder. It reads element q - back of a tap whose place
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

std::int64_t size_of_rows(const WindowAxis& axis, std::int64_t n_results) {
  return std::min(reach(axis, n_results), of_taps(axis, n_results));
}

std::int64_t size_of_columns(const WindowAxis& axis, std::int64_t n_results) {
  return std::min(axis.step * of_remainder(axis, n_results), of_taps(axis, n_results));
}

WindowLayout lay_out_rows(const WindowAxis& axis, std::int64_t n_results) {
  const std::int64_t all = reach(axis, n_results);
  if (all > of_taps(axis, n_results)) return lay_out_taps(axis, n_results);
  return {.bands = {{0, 1, 0, all}}, .positions = axis.offsets, .advance = axis.step, .size = all};
}

WindowLayout lay_out_columns(const WindowAxis& axis, std::int64_t n_results) {
  const std::int64_t each = of_remainder(axis, n_results);
  if (axis.step * each > of_taps(axis, n_results)) return lay_out_taps(axis, n_results);
  WindowLayout layout;
  for (std::int64_t remainder = 0; remainder < axis.step; ++remainder)
    layout.bands.push_back({remainder, axis.step, remainder * each, each});
  for (const std::int64_t offset : axis.offsets)
    layout.positions.push_back(offset % axis.step * each + offset / axis.step);
  layout.size = axis.step * each;
  return layout;
}

std::vector<std::int64_t> places_of_taps(const WindowLayout& rows, const WindowLayout& columns,
                                         std::int64_t n_channels) {
  std::vector<std::int64_t> places;
  for (std::int64_t channel = 0; channel < n_channels; ++channel)
    for (const std::int64_t y : rows.positions)
      for (const std::int64_t x : columns.positions)
        places.push_back((channel * rows.size + y) * columns.size + x);
  return places;
}

void copy_windows(const WindowCopy& copy, const float* plane, const Kernels& kernels, float* to) {
  WindowRows part;
  part.x = plane;
  part.row = part.width = copy.width;
  part.height = copy.height;
  part.outside = copy.outside;
  part.out_row = copy.columns.size;
  for (const WindowLayout::Band& rows : copy.rows.bands)
    for (const WindowLayout::Band& columns : copy.columns.bands) {
      part.left = copy.left + columns.offset;
      part.step = columns.step;
      part.n = columns.length;
      // Contiguous rows are copied at once.
      const std::int64_t at_once = rows.step == 1 ? rows.length : 1;
      for (std::int64_t row = 0; row < rows.length; row += at_once) {
        part.top = copy.top + rows.offset + row * rows.step;
        part.n_rows = at_once;
        part.out = to + (rows.position + row) * copy.columns.size + columns.position;
        kernels.window_rows(part);
      }
    }
}

}  // namespace weft::cpu
