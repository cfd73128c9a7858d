#include "convert/view.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/to_size.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

constexpr std::int64_t kChunk = 4 << 20;  ///< Elements that are read at a time, where order allows.

[[noreturn]] void refuse_view(const View& view, const std::string& reason) {
  throw Error(ErrorCode::kInvalidFile, "tensor '" + view.source->name.substr(0, 120) + "' " + reason +
                                           ": its shape contradicts the sizes in config.json");
}

std::size_t block_bytes(const View& view) { return to_size(info(*view.source->dtype).block_bytes); }

std::int64_t n_blocks(const View& view) {
  std::int64_t n = 1;
  for (const std::int64_t size : view.sizes) n *= size;
  return n;
}

/// From the first element to the last, both included.
std::int64_t extent(const View& view) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < view.sizes.size(); ++i) last += (view.sizes[i] - 1) * view.strides[i];
  return last + 1;
}

/// Merges axes that are contiguous in the source.
View merged(const View& view) {
  View result = view;
  result.sizes.clear();
  result.strides.clear();
  for (std::size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 1) continue;
    if (!result.sizes.empty() && result.strides.back() == view.strides[i] * view.sizes[i]) {
      result.sizes.back() *= view.sizes[i];
      result.strides.back() = view.strides[i];
    } else {
      result.sizes.push_back(view.sizes[i]);
      result.strides.push_back(view.strides[i]);
    }
  }
  if (result.sizes.empty()) {
    result.sizes = {1};
    result.strides = {1};
  }
  return result;
}

/// Copies the elements of an axis and of the axes within it, from `from` on. Returns the end of the output.
std::byte* gather(const View& view, std::size_t size, std::size_t axis, const std::byte* from,
                  std::byte* to) {
  const std::int64_t n = view.sizes[axis], stride = view.strides[axis];
  const bool innermost = axis + 1 == view.sizes.size();
  if (innermost && stride == 1) {
    std::memcpy(to, from, to_size(n) * size);
    return to + to_size(n) * size;
  }
  for (std::int64_t i = 0; i < n; ++i, from += to_size(stride) * size) {
    if (innermost) {
      std::memcpy(to, from, size);
      to += size;
    } else {
      to = gather(view, size, axis + 1, from, to);
    }
    if (i + 1 == n) break;  // The source may end here.
  }
  return to;
}

/// Reads a large view in halves if its outermost axis is the source's outermost, too.
void read_parts(const View& view, std::int64_t outer_stride,
                const std::function<void(std::span<const std::byte>)>& take_bytes) {
  const std::int64_t n = view.sizes.front();
  if (extent(view) > kChunk && n > 1 && view.strides.front() == outer_stride) {
    read_parts(view.take(0, 0, n / 2), outer_stride, take_bytes);
    read_parts(view.take(0, n / 2, n - n / 2), outer_stride, take_bytes);
    return;
  }
  const std::size_t size = block_bytes(view);
  std::vector<std::byte> raw(to_size(extent(view)) * size);
  view.source->read(view.offset, raw);
  if (view.sizes.size() == 1 && view.strides.front() == 1) return take_bytes(raw);
  std::vector<std::byte> out(to_size(n_blocks(view)) * size);
  gather(view, size, 0, raw.data(), out.data());
  take_bytes(out);
}

}  // namespace

View::View(const Source& from) : source(&from), sizes(from.shape) {
  if (sizes.empty()) sizes = {1};
  sizes.back() /= info(*from.dtype).block_elements;
  strides.assign(sizes.size(), 1);
  for (std::size_t i = sizes.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * sizes[i];
}

std::size_t View::axis_of(int axis) const {
  const int n = static_cast<int>(sizes.size());
  if (axis < -n || axis >= n) refuse_view(*this, "has " + std::to_string(n) + " axes, which is too few");
  return to_size(axis < 0 ? axis + n : axis);
}

View View::split(int axis, std::vector<std::int64_t> parts) const {
  const std::size_t at = axis_of(axis);
  std::int64_t known = 1;
  bool open = false;
  for (const std::int64_t part : parts) {
    open |= part == -1;
    if (__builtin_mul_overflow(known, part == -1 ? 1 : part, &known)) known = 0;
  }
  if (known <= 0 || sizes[at] % known != 0 || (!open && sizes[at] != known))
    refuse_view(*this, "has " + std::to_string(sizes[at]) + " rows, expected " +
                           (open ? "a multiple of " : "") + std::to_string(known));
  View result = *this;
  result.sizes.erase(result.sizes.begin() + static_cast<std::ptrdiff_t>(at));
  result.strides.erase(result.strides.begin() + static_cast<std::ptrdiff_t>(at));
  std::int64_t stride = strides[at];
  for (std::size_t i = parts.size(); i-- > 0;) {  // From the last on, each in front of the one before.
    const std::int64_t size = parts[i] == -1 ? sizes[at] / known : parts[i];
    result.sizes.insert(result.sizes.begin() + static_cast<std::ptrdiff_t>(at), size);
    result.strides.insert(result.strides.begin() + static_cast<std::ptrdiff_t>(at), stride);
    stride *= size;
  }
  return result;
}

View View::swap(int a, int b) const {
  View result = *this;
  std::swap(result.sizes[axis_of(a)], result.sizes[axis_of(b)]);
  std::swap(result.strides[axis_of(a)], result.strides[axis_of(b)]);
  return result;
}

View View::take(int axis, std::int64_t from, std::int64_t n) const {
  const std::size_t at = axis_of(axis);
  if (from < 0 || n <= 0 || from > sizes[at] - n)
    refuse_view(*this, "has " + std::to_string(sizes[at]) + " rows, expected " + std::to_string(from + n));
  View result = *this;
  result.offset += from * strides[at];
  result.sizes[at] = n;
  return result;
}

View View::times(float factor) const {
  View result = *this;
  result.scale *= factor;
  return result;
}

std::int64_t View::n_elements() const { return n_blocks(*this) * info(*source->dtype).block_elements; }

void View::read(const std::function<void(std::span<const std::byte>)>& take_bytes) const {
  const View view = merged(*this);
  std::int64_t largest = 0;
  for (const std::int64_t stride : view.strides) largest = std::max(largest, stride);
  read_parts(view, largest, take_bytes);
}

}  // namespace weft::convert_impl
