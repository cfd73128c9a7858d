#pragma once
// Loops over the elements of a shape that several operands walk with strides of their own.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/views.h"
#include "base/to_size.h"

namespace weft::cpu {

/// A view in one step: numbers instead of sizes of symbols. Elements have four bytes.
struct StridedView {
  int rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> sizes = {};
  std::array<std::int64_t, Shape::kMaxRank> strides = {};
  std::int64_t offset = 0;

  std::int64_t n_elements() const;
};
StridedView at_step(const View& view, std::span<const std::int64_t> symbols);

/// Operands of one shape, with the axes merged that all of them walk as one. Its runs are along the
/// innermost.
class StridedLoops {
 public:
  static constexpr int kMaxOperands = 4;

  /// Sizes are the first operand's.
  void set(std::span<const StridedView> operands);
  std::int64_t n_elements() const { return n_elements_; }
  /// The stride of an operand along a run.
  std::int64_t run_stride(int operand) const { return strides_[index_of(operand)][kMaxAxes - 1]; }
  std::int64_t run_length() const { return sizes_[kMaxAxes - 1]; }

  using Offsets = std::array<std::int64_t, kMaxOperands>;
  /// Calls f(offsets of the operands, number of elements) for the runs that elements [begin, end) are.
  template <typename F>
  void for_each_run(std::int64_t begin, std::int64_t end, F f) const {
    if (begin >= end) return;
    Axes place = {};
    std::int64_t rest = begin;
    for (int i = kMaxAxes; i-- > 0;) {
      place[index_of(i)] = rest % sizes_[index_of(i)];
      rest /= sizes_[index_of(i)];
    }
    Offsets at = offsets_;
    for (int o = 0; o < n_operands_; ++o)
      for (int i = 0; i < kMaxAxes; ++i)
        at[index_of(o)] += place[index_of(i)] * strides_[index_of(o)][index_of(i)];
    while (begin < end) {
      const std::int64_t n = std::min(run_length() - place.back(), end - begin);
      f(at, n);
      begin += n;
      // To the beginning of the next run.
      step(at, kMaxAxes - 1, -place.back());
      place.back() = 0;
      for (int i = kMaxAxes - 1; i-- > 0;) {
        step(at, i, 1);
        if (++place[index_of(i)] < sizes_[index_of(i)]) break;
        step(at, i, -sizes_[index_of(i)]);
        place[index_of(i)] = 0;
      }
    }
  }

 private:
  static constexpr int kMaxAxes = Shape::kMaxRank;
  using Axes = std::array<std::int64_t, kMaxAxes>;
  static constexpr std::size_t index_of(int i) { return to_size(i); }
  void step(Offsets& at, int axis, std::int64_t times) const {
    for (int o = 0; o < n_operands_; ++o) at[index_of(o)] += times * strides_[index_of(o)][index_of(axis)];
  }

  int n_operands_ = 0;
  std::int64_t n_elements_ = 0;
  Axes sizes_ = {1, 1, 1, 1};  // Innermost last, 1 for unused axes.
  std::array<Axes, kMaxOperands> strides_ = {};
  Offsets offsets_ = {};
};

/// Gives a launch's tasks equal shares of its work.
struct Shares {
  std::int64_t per_task = 1;
  std::int32_t n_tasks = 0;

  /// `n` pieces, of which `least` are worth a task.
  void set(std::int64_t n, std::int64_t least, int n_threads);
};

}  // namespace weft::cpu
