#include "backend/views.h"

#include <vector>

#include "base/to_size.h"

namespace weft {
namespace {

/// An axis that has more than one element, or may.
struct Axis {
  Dim size, stride;
};

constexpr std::size_t at(int axis) { return to_size(axis); }

void set_plain_strides(View& view) {
  Dim stride = 1;
  for (int i = view.shape.rank(); i-- > 0;) {
    view.strides[at(i)] = stride;
    stride = stride * view.shape[i];
  }
}

std::optional<View> reshape(const View& input, const Shape& shape) {
  View result = {input.base, shape, input.offset, {}};
  std::vector<Axis> axes;
  for (int i = 0; i < input.shape.rank(); ++i)
    if (!(input.shape[i] == Dim(1))) axes.push_back({input.shape[i], input.strides[at(i)]});
  std::vector<int> open;
  for (int i = 0; i < shape.rank(); ++i)
    if (!(shape[i] == Dim(1))) open.push_back(i);
  // Axes that stay, from both ends.
  const auto keep = [&](std::size_t axis, std::size_t to) {
    if (!(axes[axis].size == shape[open[to]])) return false;
    result.strides[at(open[to])] = axes[axis].stride;
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(axis));
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(to));
    return true;
  };
  while (!axes.empty() && !open.empty() && keep(axes.size() - 1, open.size() - 1)) {
  }
  while (!axes.empty() && !open.empty() && keep(0, 0)) {
  }
  // What is between them has to be one run of elements. (Axes that have nothing opposite are of size 1 in
  // effect: both products are equal.)
  for (std::size_t i = 0; i + 1 < axes.size(); ++i)
    if (!(axes[i].stride == axes[i + 1].stride * axes[i + 1].size)) return std::nullopt;
  Dim stride = axes.empty() ? Dim(0) : axes.back().stride;
  for (std::size_t i = open.size(); i-- > 0;) {
    result.strides[at(open[i])] = stride;
    stride = stride * shape[open[i]];
  }
  return result;
}

}  // namespace

View plain_view(ValueId value, const Shape& shape) {
  View view = {value, shape, 0, {}};
  set_plain_strides(view);
  return view;
}

bool is_contiguous(const View& view) {
  if (!(view.offset == Dim(0))) return false;
  Dim stride = 1;
  for (int i = view.shape.rank(); i-- > 0;) {
    if (view.shape[i] == Dim(1)) continue;
    if (!(view.strides[at(i)] == stride)) return false;
    stride = stride * view.shape[i];
  }
  return true;
}

View broadcast_view(const View& view, const Shape& shape) {
  View result = {view.base, shape, view.offset, {}};
  const int missing = shape.rank() - view.shape.rank();
  for (int i = 0; i < shape.rank(); ++i) {
    const bool repeated = i < missing || (view.shape[i - missing] == Dim(1) && !(shape[i] == Dim(1)));
    result.strides[at(i)] = repeated ? Dim(0) : view.strides[at(i - missing)];
  }
  return result;
}

View with_four_axes(const View& view) {
  const int missing = Shape::kMaxRank - view.shape.rank();
  std::vector<Dim> sizes(to_size(missing), Dim(1));
  View result = {view.base, {}, view.offset, {0, 0, 0, 0}};
  for (int i = 0; i < view.shape.rank(); ++i) {
    sizes.push_back(view.shape[i]);
    result.strides[at(missing + i)] = view.strides[at(i)];
  }
  result.shape = Shape(sizes);
  return result;
}

std::optional<View> apply_view(const Op& op, const View& input, const Shape& shape) {
  View result = {input.base, shape, input.offset, input.strides};
  if (const auto* permute = std::get_if<ops::Permute>(&op)) {
    for (int i = 0; i < shape.rank(); ++i) result.strides[at(i)] = input.strides[at(permute->axes[at(i)])];
    return result;
  }
  if (const auto* slice = std::get_if<ops::Slice>(&op)) {
    const Dim& stride = input.strides[at(slice->axis)];
    result.offset = input.offset + slice->begin * stride;
    result.strides[at(slice->axis)] = stride * slice->step;
    return result;
  }
  if (const auto* flip = std::get_if<ops::Flip>(&op)) {
    for (int i = 0; i < shape.rank(); ++i) {
      if ((flip->axes >> i & 1) == 0) continue;
      const Dim stride = input.strides[at(i)];
      result.offset = result.offset + (shape[i] + Dim(-1)) * stride;
      result.strides[at(i)] = stride * Dim(-1);
    }
    return result;
  }
  if (std::holds_alternative<ops::BroadcastTo>(op)) return broadcast_view(input, shape);
  return reshape(input, shape);
}

}  // namespace weft
