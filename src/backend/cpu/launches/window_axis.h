#pragma once
// One side, height or width, of the windows of a convolution: the input elements of its results, and their
// layout in a block. A block is the copy that a task works on.
#include <cstdint>
#include <vector>

#include "backend/cpu/kernels/kernels.h"

namespace weft::cpu {

/// Results i = 0, 1, ... at out_first + i * out_step. Each reads input element origin + i * step + offsets[t]
/// for each of its taps: zero if that is outside the input.
struct WindowAxis {
  std::vector<std::int64_t> taps;     ///< Which of the kernel's.
  std::vector<std::int64_t> offsets;  ///< From 0 on.
  std::int64_t origin = 0;
  std::int64_t step = 1;
  std::int64_t out_first = 0, out_step = 1;

  std::int64_t n_results(std::int64_t out_size) const {
    return out_size <= out_first ? 0 : (out_size - out_first + out_step - 1) / out_step;
  }
};

WindowAxis convolution_axis(std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                            std::int64_t dilation);
/// Of a transposed convolution: the results of each remainder by the stride are a plain convolution of their
/// own, with some of the taps.
std::vector<WindowAxis> transposed_axes(std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                                        std::int64_t dilation);

/// Where what n results read lies: bands of elements that are `step` apart in the input, one after another.
struct WindowLayout {
  struct Band {
    std::int64_t offset;    ///< The offset of its first element.
    std::int64_t step;      ///< From one to the next, in the input.
    std::int64_t position;  ///< Where the first lies.
    std::int64_t length;
  };
  std::vector<Band> bands;
  std::vector<std::int64_t> positions;  ///< By tap: the place of the first result's element ...
  std::int64_t advance = 1;             ///< ... and the distance to the next result's.
  std::int64_t size = 0;
};
/// All rows from the first to the last, or a band for each tap where that is less.
WindowLayout lay_out_rows(const WindowAxis& axis, std::int64_t n_results);
/// All columns, grouped by remainder modulo the step, or a band for each tap. They advance by 1.
WindowLayout lay_out_columns(const WindowAxis& axis, std::int64_t n_results);
/// Their sizes alone, which do not shrink as results grow.
std::int64_t size_of_rows(const WindowAxis& axis, std::int64_t n_results);
std::int64_t size_of_columns(const WindowAxis& axis, std::int64_t n_results);

/// Where the taps of a block's first result lie, channel after channel, row after row.
std::vector<std::int64_t> places_of_taps(const WindowLayout& rows, const WindowLayout& columns,
                                         std::int64_t n_channels);
/// Copies what a block of results reads of a plane {height, width}. What is not there is `outside`.
struct WindowCopy {
  const WindowLayout &rows, &columns;
  std::int64_t height, width;
  std::int64_t top, left;  ///< The elements that have offset 0.
  float outside;
};
void copy_windows(const WindowCopy& copy, const float* plane, const Kernels& kernels, float* to);

}  // namespace weft::cpu
