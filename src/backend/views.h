#pragma once
// Views: values that are others' elements in another shape. A view op's value need not have its own memory:
// readers with strides read the base of the view.
#include <array>
#include <optional>

#include "weft/graph.h"

namespace weft {

/// Where a value's elements lie, in elements of the base's memory. Steps give offset and strides numbers.
struct View {
  ValueId base = kNoValue;
  Shape shape;
  Dim offset = 0;
  std::array<Dim, Shape::kMaxRank> strides = {0, 0, 0, 0};
};

/// A value with its own memory, row after row; as if of that shape.
View plain_view(ValueId value, const Shape& shape);
/// Whether it is all that the base's memory begins with, row after row.
bool is_contiguous(const View& view);
/// A view op's result, of `shape`, as a view of what its input is one of. Nothing where that has no strides:
/// some reshapes need their input row after row, where every reshape is a view.
std::optional<View> apply_view(const Op& op, const View& input, const Shape& shape);
/// With axes of one element in front, up to four.
View with_four_axes(const View& view);
/// The same elements, repeated to the shape that they broadcast to.
View broadcast_view(const View& view, const Shape& shape);

}  // namespace weft
