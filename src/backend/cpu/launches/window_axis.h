#pragma once
// One side, height or width, of the windows of a convolution: which elements of the input its results read,
// and how these lie in a block, the copy that a task works on.
#include <cstdint>
#include <vector>

namespace weft::cpu {

/// Results i = 0, 1, ... at out_first + i * out_step, each of which reads input element
/// origin + i * step + offsets[t] for each of its taps: zero where there is no such element.
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

/// What n results read, one band after another: all that lies between the first and the last element, or
/// bands for each tap where those are far apart.
struct WindowLayout {
  struct Band {
    std::int64_t offset;    ///< Of its first element, as offsets count.
    std::int64_t position;  ///< Where that lies.
    std::int64_t length;
  };
  std::vector<Band> bands;
  std::vector<std::int64_t> positions;  ///< By tap: where the first result's element lies.
  std::int64_t size = 0;
};
/// Bands begin at multiples of `unit`, and so does the end.
WindowLayout lay_out(const WindowAxis& axis, std::int64_t n_results, std::int64_t unit);
/// Its size alone, which does not shrink as results grow.
std::int64_t layout_size(const WindowAxis& axis, std::int64_t n_results, std::int64_t unit);

}  // namespace weft::cpu
