#pragma once
// What ops over values of any rank are, as truth.h says of others: in double, element by element.
#include <array>
#include <vector>

#include "backend/conformance/truth.h"

namespace weft::conformance {

/// Elements row after row, the innermost dimension last.
struct Tensor {
  std::vector<std::size_t> dims;
  Values values;

  explicit Tensor(std::vector<std::size_t> sizes);
  Tensor(std::vector<std::size_t> sizes, Values elements);
  /// The element at a place that has as many entries as there are dimensions.
  std::size_t at(const std::vector<std::size_t>& place) const;
};

double unary(UnaryKind kind, double x);
double binary(BinaryKind kind, double a, double b);
bool compare(CompareKind kind, double a, double b);

/// The shape that all broadcast to.
std::vector<std::size_t> broadcast_dims(const std::vector<Tensor>& tensors);
Tensor broadcast_to(const Tensor& x, const std::vector<std::size_t>& dims);
Tensor permute(const Tensor& x, const std::vector<std::size_t>& axes);
Tensor slice(const Tensor& x, std::size_t axis, std::size_t begin, std::size_t end, std::size_t step);

Tensor reduce(const ops::Reduce& op, const Tensor& x);
Tensor batch_matmul(const Tensor& a, const Tensor& b);
Tensor concat(const std::vector<Tensor>& parts, std::size_t axis);
Tensor pad(const ops::Pad& op, const Tensor& x);

}  // namespace weft::conformance
