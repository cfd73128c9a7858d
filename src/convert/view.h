#pragma once
// A strided view of a folder's tensor, for tensors that are renamed, split, transposed or reordered.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "convert/folder_weights.h"

namespace weft::convert_impl {

/// Sizes and strides of each axis, outermost first, in elements (in blocks, where the type has some). Axes
/// below 0 count from the last. Each function returns another view. It throws Error kInvalidFile that names
/// the tensor if the sizes do not fit.
struct View {
  const Source* source;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;
  float scale = 1.0f;

  explicit View(const Source& source);

  /// Splits the axis into several. One part may be -1: it gets the remaining factor.
  View split(int axis, std::vector<std::int64_t> parts) const;
  View swap(int a, int b) const;
  View take(int axis, std::int64_t from, std::int64_t n) const;
  View times(float factor) const;

  std::int64_t n_elements() const;  ///< Elements, also for types with blocks.
  /// Calls with the elements in order, some at a time, as the source stores them. Throws Error kIo.
  void read(const std::function<void(std::span<const std::byte>)>& take_bytes) const;

 private:
  std::size_t axis_of(int axis) const;
};

}  // namespace weft::convert_impl
