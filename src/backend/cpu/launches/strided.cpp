#include "backend/cpu/launches/strided.h"

#include <algorithm>

#include "base/to_size.h"

namespace weft::cpu {

std::int64_t StridedView::n_elements() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= sizes[to_size(i)];
  return n;
}

StridedView at_step(const View& view, std::span<const std::int64_t> symbols) {
  StridedView result;
  result.rank = view.shape.rank();
  result.offset = view.offset.value(symbols);
  for (int i = 0; i < result.rank; ++i) {
    const auto axis = to_size(i);
    result.sizes[axis] = view.shape[i].value(symbols);
    result.strides[axis] = view.strides[axis].value(symbols);
  }
  return result;
}

void StridedLoops::set(std::span<const StridedView> operands) {
  n_operands_ = static_cast<int>(operands.size());
  n_elements_ = operands[0].n_elements();
  sizes_.fill(1);
  for (std::size_t o = 0; o < operands.size(); ++o) {
    offsets_[o] = operands[o].offset;
    strides_[o].fill(0);
  }
  int axis = kMaxAxes;  // The last one that was filled.
  for (int from = operands[0].rank; from-- > 0;) {
    const std::int64_t size = operands[0].sizes[index_of(from)];
    if (size == 1) continue;
    bool merges = axis < kMaxAxes;
    for (std::size_t o = 0; o < operands.size() && merges; ++o)
      merges = operands[o].strides[index_of(from)] == strides_[o][index_of(axis)] * sizes_[index_of(axis)];
    if (merges) {
      sizes_[index_of(axis)] *= size;
      continue;
    }
    --axis;
    sizes_[index_of(axis)] = size;
    for (std::size_t o = 0; o < operands.size(); ++o)
      strides_[o][index_of(axis)] = operands[o].strides[index_of(from)];
  }
}

void Shares::set(std::int64_t n, std::int64_t least, int n_threads) {
  // Four tasks a thread: late ones are made up for.
  per_task = std::max({std::int64_t{1}, least, (n + 4 * n_threads - 1) / (4 * n_threads)});
  n_tasks = static_cast<std::int32_t>((n + per_task - 1) / per_task);
}

}  // namespace weft::cpu
