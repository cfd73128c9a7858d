#pragma once
// The definitions of ops that count, move, order and draw elements, of attention over given keys and of
// recurrent cells (see general_truth.h).
#include <cstdint>

#include "backend/conformance/general_truth.h"

namespace weft::conformance {

double int_binary(IntKind kind, double a, double b);
/// F32 to I32.
double truncated(double x);
Tensor take_along(const Tensor& x, const Tensor& indices, std::size_t axis);
Tensor scatter(const ops::Scatter& op, const Tensor& x, const Tensor& indices, const Tensor& source);
Tensor cumsum(const Tensor& x, std::size_t axis);
Tensor argsort(const ops::Argsort& op, const Tensor& x);
Tensor flip(const ops::Flip& op, const Tensor& x);
Values random(const ops::Random& op, std::int32_t counter, std::size_t n);

/// What is absent has no dimensions and no elements.
struct DenseCase {
  ops::DenseAttention op;
  Tensor q, k, v, bias, sinks;
  bool mask = false;  ///< The bias is one.
};
Tensor dense_attention(const DenseCase& a);

/// States that are empty are zeros, an empty bias, too.
struct CellCase {
  Tensor x;
  Values weight, h0, c0, bias;
};
/// {2, t, b, h}
Values lstm(const CellCase& a);
/// {t, b, h}
Values gru(const CellCase& a);

}  // namespace weft::conformance
