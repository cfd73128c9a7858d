#pragma once
// The arguments of kernels: the launch's parameters, and its entry in the step table (gpu/step_table.h) with
// the sizes of this step. A grid may have more blocks than the step has groups: those without one end at
// once.
#include "backend/cuda/kernels/thread.h"
#include "backend/gpu/push.h"

namespace weft::cuda {

inline constexpr uint kMaxConstants = 16;

/// Passed to each kernel by value.
struct Arguments {
  gpu::Push push;
  uint constants[kMaxConstants];  ///< Launch::constants.
};

WEFT_CONSTANT float kLowest = -3.4e38f;

/// A kernel's view of its arguments.
struct Call {
  const Arguments& a;
  /// Read once: the host writes zeros there when the step is cancelled, also while the kernel runs. A stride
  /// that became 0 would never end a loop.
  const Index3 step_groups;

  WEFT_DEVICE explicit Call(const Arguments& arguments)
      : a(arguments), step_groups(read_groups(reinterpret_cast<const uint*>(arguments.push.step))) {}
  WEFT_DEVICE static Index3 read_groups(const volatile uint* words) { return {words[0], words[1], words[2]}; }
  WEFT_DEVICE const uint* entry() const { return reinterpret_cast<const uint*>(a.push.step); }
  WEFT_DEVICE std::uint64_t address(uint i) const {
    return reinterpret_cast<const std::uint64_t*>(a.push.addresses)[a.push.tensors[i]];
  }
  template <typename T>
  WEFT_DEVICE T* at(uint i, std::uint64_t bytes = 0) const {
    return reinterpret_cast<T*>(address(i) + bytes);
  }
  WEFT_DEVICE float* floats(uint i) const { return at<float>(i); }
  /// Row `row` of floats.
  WEFT_DEVICE float* row(uint i, uint row, uint columns) const {
    return at<float>(i, std::uint64_t{row} * columns * 4u);
  }
  WEFT_DEVICE const int* ints(uint i) const { return at<const int>(i); }
  WEFT_DEVICE uint param(uint i) const { return a.push.params[i]; }
  WEFT_DEVICE float param_float(uint i) const { return as_float(a.push.params[i]); }
  WEFT_DEVICE uint constant(uint i) const { return a.constants[i]; }

  // Of this step.
  WEFT_DEVICE Index3 groups() const { return step_groups; }
  /// The same for all threads of a block, also if they read the groups before and after a cancellation. Else
  /// some would miss the others' barriers, and what those threads put into shared memory.
  WEFT_DEVICE bool has_work() const {
    const Index3 b = block();
    return all_of_block(b.x < step_groups.x && b.y < step_groups.y && b.z < step_groups.z);
  }
  WEFT_DEVICE uint n_rows() const { return entry()[3]; }
  WEFT_DEVICE uint word(uint i) const { return entry()[4u + i]; }
};

/// The grids of the IQ types (gpu/grids.h).
WEFT_DEVICE const std::uint16_t* grids_of(const Call& c) {
  return reinterpret_cast<const std::uint16_t*>(c.a.push.grids);
}

/// Calls of(i) for i below n, shared by all threads of the grid.
template <uint kThreads, typename F>
WEFT_DEVICE void for_each(const Call& c, uint n, F of) {
  for (uint i = block().x * kThreads + thread(); i < n; i += c.groups().x * kThreads) of(i);
}

/// Elements of operands with strides, as in vulkan/shaders/strided.glsl. Words have the sizes of a shape,
/// outermost first. For each operand they then have the place of its first element and its strides.
struct Walk {
  const Call& c;
  uint begin, axes;

  WEFT_DEVICE uint n_words(uint operands) const { return axes + operands * (1u + axes); }
  /// The place of element i of the shape in an operand.
  WEFT_DEVICE uint place(uint operand, uint i) const {
    const uint first = begin + axes + operand * (1u + axes);
    uint place = c.word(first);
    for (uint axis = axes; axis-- > 0u;) {
      const uint size = c.word(begin + axis);
      place += (axis > 0u ? i % size : i) * c.word(first + 1u + axis);
      i /= size;
    }
    return place;
  }
};

/// The sum or the maximum of the values of a block's threads, for each thread. The order is fixed: eight
/// neighbours at a time, then these results in sequence.
template <uint kThreads>
WEFT_DEVICE float reduce(float mine, bool largest) {
  WEFT_SHARED float partials[kThreads];
  const auto joined = [&](float a, float b) { return largest ? larger(a, b) : a + b; };
  const uint t = thread();
  barrier();
  partials[t] = mine;
  barrier();
  const bool has_eight = t < kThreads / 8u;
  if (has_eight) {
    const float* const p = partials + 8u * t;
    mine = joined(joined(joined(p[0], p[1]), joined(p[2], p[3])),
                  joined(joined(p[4], p[5]), joined(p[6], p[7])));
  }
  barrier();
  if (has_eight) partials[t] = mine;
  barrier();
  float all = partials[0];
  for (uint i = 1; i < kThreads / 8u; ++i) all = joined(all, partials[i]);
  return all;
}
template <uint kThreads>
WEFT_DEVICE float sum_of_block(float mine) {
  return reduce<kThreads>(mine, false);
}
template <uint kThreads>
WEFT_DEVICE float largest_of_block(float mine) {
  return reduce<kThreads>(mine, true);
}

}  // namespace weft::cuda
