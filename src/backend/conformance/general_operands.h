#pragma once
// Operands of cases of values of any rank: plain, with edges of arithmetic, and as views that need not lie
// row after row. Inside this layer only.
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "backend/conformance/case.h"
#include "backend/conformance/general_truth.h"
#include "base/to_size.h"

namespace weft::conformance {

using Sizes = std::vector<std::size_t>;

/// Stands for the number of rows of a step in a list of sizes: a symbol in the graph.
inline constexpr std::int64_t kRows = -1;

/// A value of a graph, and its numbers.
struct Known {
  ValueId id = kNoValue;
  Shape shape;
  Tensor tensor{Sizes{}};
};

/// Makes the operands of a case.
class Operands {
 public:
  Operands(Case& c, std::int64_t m) : case_(c), m_(m) {}

  Dim dim(std::int64_t size) { return size == kRows ? case_.rows(m_) : Dim(size); }
  std::size_t number(std::int64_t size) const { return to_size(size == kRows ? m_ : size); }

  Known plain(const std::vector<std::int64_t>& sizes, float low = -2.0f, float high = 2.0f) {
    Known known = sized(sizes);
    known.tensor.values = case_.floats(numbers(known), low, high);
    return enter(std::move(known));
  }
  /// With elements that arithmetic treats in ways of their own; of those, large ones leave sums few digits.
  Known edgy(const std::vector<std::int64_t>& sizes, bool large = true, float most = 60.0f) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const double edges[] = {0.0,  -0.0, kInf, -kInf, std::nan(""), 0.5,
                            -0.5, 1.5,  2.5,  -3.5,  8388607.5,    -4194304.5};
    Known known = sized(sizes);
    known.tensor.values = case_.floats(numbers(known), -most, most);
    for (double& value : known.tensor.values)
      if (case_.integer(0, 3) == 0)
        value = edges[case_.integer(0, static_cast<std::int32_t>(std::size(edges)) - (large ? 1 : 3))];
    return enter(std::move(known));
  }
  Known integers(const std::vector<std::int64_t>& sizes, std::int32_t low, std::int32_t high) {
    Known known = sized(sizes);
    Indices values(known.tensor.values.size());
    for (std::int32_t& value : values) value = case_.integer(low, high);
    known.tensor.values.assign(values.begin(), values.end());
    known.id = case_.input(known.shape, values);
    return known;
  }
  /// Elements of another value: its axes exchanged, every second one of some.
  Known strided(const std::vector<std::int64_t>& sizes) {
    const std::size_t rank = sizes.size();
    Sizes axes(rank);  // The base's axes, by axis of the result.
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    for (std::size_t i = rank; i > 1; --i)
      std::swap(axes[i - 1], axes[to_size(case_.integer(0, static_cast<std::int32_t>(i) - 1))]);
    std::vector<std::int64_t> base(rank), begin(rank), step(rank, 1);
    for (std::size_t i = 0; i < rank; ++i) {
      step[i] = sizes[i] == kRows ? 1 : case_.integer(1, 2);
      begin[i] = sizes[i] == kRows ? 0 : case_.integer(0, 2);
      base[axes[i]] = sizes[i] == kRows ? kRows : begin[i] + sizes[i] * step[i];
    }
    Known x = permuted(plain(base), axes);
    for (std::size_t i = 0; i < rank; ++i)
      if (sizes[i] != kRows) x = sliced(x, i, begin[i], begin[i] + sizes[i] * step[i], step[i]);
    return x;
  }

  Known permuted(const Known& x, const Sizes& axes) {
    ops::Permute op;
    std::vector<Dim> dims;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      op.axes[i] = static_cast<int>(axes[i]);
      dims.push_back(x.shape[op.axes[i]]);
    }
    return {case_.graph.add(op, {x.id}, "permuted" + tag()), Shape(dims), permute(x.tensor, axes)};
  }
  /// Of an axis of constant size.
  Known sliced(const Known& x, std::size_t axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
    std::vector<Dim> dims = dims_of(x);
    dims[axis] = (end - begin + step - 1) / step;
    return {case_.graph.add(ops::Slice{static_cast<int>(axis), begin, end, step}, {x.id}, "sliced" + tag()),
            Shape(dims), slice(x.tensor, axis, to_size(begin), to_size(end), to_size(step))};
  }
  Known reshaped(const Known& x, const std::vector<Dim>& dims, const Sizes& sizes) {
    return {case_.graph.add(ops::Reshape{Shape(dims)}, {x.id}, "reshaped" + tag()), Shape(dims),
            Tensor(sizes, x.tensor.values)};
  }
  /// A new axis, repeated.
  Known repeated(const Known& x, std::size_t axis, std::int64_t times) {
    std::vector<Dim> dims = dims_of(x);
    Sizes sizes = x.tensor.dims;
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    const Known one = reshaped(x, dims, sizes);
    dims[axis] = times;
    sizes[axis] = to_size(times);
    return {case_.graph.add(ops::BroadcastTo{Shape(dims)}, {one.id}, "repeated" + tag()), Shape(dims),
            broadcast_to(one.tensor, sizes)};
  }
  static std::vector<Dim> dims_of(const Known& x) {
    std::vector<Dim> dims;
    for (int i = 0; i < x.shape.rank(); ++i) dims.push_back(x.shape[i]);
    return dims;
  }

 private:
  std::string tag() { return std::to_string(n_++); }

  Known sized(const std::vector<std::int64_t>& sizes) {
    Known known;
    std::vector<Dim> dims;
    Sizes in_step;
    for (const std::int64_t size : sizes) {
      dims.push_back(dim(size));
      in_step.push_back(number(size));
    }
    known.shape = Shape(dims);
    known.tensor = Tensor(in_step);
    return known;
  }
  static Shape numbers(const Known& known) {
    const std::vector<std::int64_t> sizes(known.tensor.dims.begin(), known.tensor.dims.end());
    return Shape(std::span<const std::int64_t>(sizes));
  }
  Known enter(Known known) {
    known.id = case_.input(known.shape, known.tensor.values);
    return known;
  }

  Case& case_;
  std::int64_t m_;
  int n_ = 0;
};

/// As floats, which may go past the largest.
inline Values as_floats(Values values) {
  for (double& value : values) value = static_cast<double>(static_cast<float>(value));
  return values;
}

inline std::string text_of(const Known& x) {
  std::string result = "{";
  for (const std::size_t size : x.tensor.dims)
    result += (result.size() > 1 ? "," : "") + std::to_string(size);
  return result + "}";
}

}  // namespace weft::conformance
