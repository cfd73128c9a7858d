// The language's functions over sequences.
#include <string>

#include "graph/operands.h"
#include "graph/refuse.h"
#include "weft/graph/order.h"
#include "weft/graph/sequence.h"

namespace weft {
namespace {

/// The last time of a value {t, b, h}, as {b, h}.
Value last_time(Value y, const Where& where) {
  const Dim t = y.shape()[0];
  return reshape(slice(y, 0, t - 1, t, 1, where), {y.shape()[1], y.shape()[2]}, where);
}

}  // namespace

Value softmax(Value x, int axis, Where where) {
  const int at = axis_of("softmax", x, axis, where);
  if (at == x.rank() - 1) return softmax(x, where);
  return transpose(softmax(transpose(x, at, -1, where), where), at, -1, where);
}

Value scaled_dot_product_attention(Value q, Value k, Value v, const AttentionOptions& options, Where where) {
  const char* const op = "scaled_dot_product_attention";
  check(op, q, {}, where);
  const int rank = q.rank();
  if (rank < 2) refuse(std::string(op) + ": " + text(q) + " has no rows and columns", where);
  for (Value* const x : {&q, &k, &v}) {
    check(op, *x, {}, where);
    if (x->rank() != rank) refuse(std::string(op) + ": " + text(*x) + " has not as many axes as q", where);
    while (x->rank() < Shape::kMaxRank) *x = unsqueeze(*x, 0, where);
  }
  Value bias = options.bias;
  if (!bias && options.sinks) bias = zeros(q.graph(), {1}, where);
  Value y = apply(ops::DenseAttention{options.causal, options.scale, options.softcap},
                  {q, k, v, bias, options.sinks}, where);
  while (y.rank() > rank) y = squeeze(y, 0, where);
  return y;
}

Recurrence lstm(Value x, Value weight, Value h0, Value c0, Where where) {
  check("lstm", x, {}, where);
  if (!h0 && c0) {
    check("lstm", weight, {}, where);
    h0 = zeros(x.graph(), c0.shape(), where);
  }
  const Value both = apply(ops::Lstm{}, {x, weight, h0, c0}, where);
  const Shape shape = both.shape();
  const auto part = [&](std::int64_t i) {
    return reshape(slice(both, 0, i, i + 1, 1, where), {shape[1], shape[2], shape[3]}, where);
  };
  const Value y = part(0);
  return {y, last_time(y, where), last_time(part(1), where)};
}

Recurrence gru(Value x, Value weight, Value h0, Value bias, Where where) {
  check("gru", x, {}, where);
  check("gru", weight, {}, where);
  if (!h0 && bias && x.rank() == 3) h0 = zeros(x.graph(), {x.size(1), weight.size(-1)}, where);
  const Value y = apply(ops::Gru{}, {x, weight, h0, bias}, where);
  return {y, last_time(y, where)};
}

}  // namespace weft
