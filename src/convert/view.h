#pragma once
// A part of a folder's tensor in an order of its own: what is renamed, split, turned or reordered on the way.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "convert/folder_weights.h"

namespace weft::convert_impl {

/// Elements of a tensor (its blocks, where the type has some), outermost index first: sizes, and how far
/// apart in the source neighbours of each axis lie. Axes below 0 count from the last. Each function gives
/// another view; those that sizes do not fit throw Error kInvalidFile that names the tensor.
struct View {
  const Source* source;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;
  float scale = 1.0f;

  explicit View(const Source& source);

  /// The axis as several, of which one may be -1: what is left for it.
  View split(int axis, std::vector<std::int64_t> parts) const;
  View swap(int a, int b) const;
  View take(int axis, std::int64_t from, std::int64_t n) const;
  View times(float factor) const;

  std::int64_t n_elements() const;  ///< Also where the type has blocks.
  /// Calls with the elements in order, some at a time, as the source stores them. Throws Error kIo.
  void read(const std::function<void(std::span<const std::byte>)>& take_bytes) const;

 private:
  std::size_t axis_of(int axis) const;
};

}  // namespace weft::convert_impl
