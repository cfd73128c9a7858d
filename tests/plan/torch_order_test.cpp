// Ops that count, move and order, attention and recurrent cells give what PyTorch gives
// (scripts/make_order_vectors.py).
#include "plan/vectors.h"

namespace weft {
namespace {

using namespace test;

Make over_axis(Value (*f)(Value, const Axes&, bool, Where)) {
  return
      [f](const Values& in, const Numbers& p) { return f(in[0], {number(p, 0)}, false, Where::current()); };
}
Make triangle(Value (*f)(Value, std::int64_t, Where)) {
  return [f](const Values& in, const Numbers& p) { return f(in[0], p.at(0), Where::current()); };
}
Make repeated(Value (*f)(Value, std::int64_t, int, Where)) {
  return
      [f](const Values& in, const Numbers& p) { return f(in[0], p.at(0), number(p, 1), Where::current()); };
}
/// x, indices
Make taken(Value (*f)(Value, Value, int, Where)) {
  return [f](const Values& in, const Numbers& p) { return f(in[0], in[1], number(p, 0), Where::current()); };
}
/// x, indices, source
Make stored(Value (*f)(Value, Value, Value, int, Where)) {
  return [f](const Values& in, const Numbers& p) {
    return f(in[0], in[1], in[2], number(p, 0), Where::current());
  };
}
Make ordered(Value (*f)(Value, int, bool, Where)) {
  return [f](const Values& in, const Numbers& p) {
    return f(in[0], number(p, 0), p.at(1) != 0, Where::current());
  };
}

Value flipped(const Values& in, const Numbers& p) {
  switch (p.size()) {
    case 1:
      return flip(in[0], {number(p, 0)});
    case 2:
      return flip(in[0], {number(p, 0), number(p, 1)});
    default:
      return flip(in[0], {0, 1, 2});
  }
}

Value attention(const Values& in, const Numbers& p) {
  const AttentionOptions options = {.bias = in.size() > 3 ? in[3] : Value(), .causal = p.at(0) != 0};
  return scaled_dot_product_attention(in[0], in[1], in[2], options);
}

Value attention_parts(const Values& in, const Numbers&) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(in[0].size(-1).constant()));
  const Value scores = matmul(in[0], transpose(in[1])) * scale;
  return matmul(softmax(where(in[3], scores, -INFINITY), -1), in[2]);
}

/// A part of a recurrence: all outputs, the last one, or the last cell.
Value part(const Recurrence& r, const Numbers& p) { return p.at(0) == 0 ? r.y : p.at(0) == 1 ? r.h : r.c; }
Value at(const Values& in, std::size_t i) { return i < in.size() ? in[i] : Value(); }

const std::map<std::string, Make>& order_functions() {
  static const std::map<std::string, Make> table = {
      {"arange",
       [](const Values& in, const Numbers& p) { return arange(in[0].graph(), p.at(0), p.at(1), p.at(2)); }},
      {"cast_int", [](const Values& in, const Numbers&) { return cast(in[0], DType::kI32); }},
      {"floor_divide", binary(floor_divide)},
      {"remainder", binary(remainder)},
      {"int_add", [](const Values& in, const Numbers&) { return in[0] + in[1]; }},
      {"int_sub", [](const Values& in, const Numbers&) { return in[0] - in[1]; }},
      {"int_mul", [](const Values& in, const Numbers&) { return in[0] * in[1]; }},
      {"int_max", binary(maximum)},
      {"int_min", binary(minimum)},
      {"logical_and", binary(logical_and)},
      {"logical_or", binary(logical_or)},
      {"logical_not", unary(logical_not)},
      {"int_scalar", [](const Values& in, const Numbers&) { return 3.0f - in[0] * 2.0f; }},
      {"int_where", [](const Values& in, const Numbers&) { return where(in[0], in[1], in[2]); }},
      {"isnan", unary(isnan)},
      {"isinf", unary(isinf)},
      {"isfinite", unary(isfinite)},
      {"erf", unary(erf)},
      {"expm1", unary(expm1)},
      {"log1p", unary(log1p)},
      {"prod", over_axis(prod)},
      {"logsumexp", over_axis(logsumexp)},
      {"argmin", [](const Values& in, const Numbers& p) { return argmin(in[0], number(p, 0)); }},
      {"any", over_axis(any)},
      {"all", over_axis(all)},
      {"flip", flipped},
      {"flip_cumsum",
       [](const Values& in, const Numbers& p) {
         const int axis = number(p, 0);
         return flip(cumsum(flip(in[0], {axis}), axis), {axis});
       }},
      {"stack", [](const Values& in, const Numbers& p) { return stack({in[0], in[1]}, number(p, 0)); }},
      {"split",
       [](const Values& in, const Numbers& p) {
         const Dim sizes[] = {1, 3};
         return split(in[0], sizes, number(p, 0))[1] * 1.0f;
       }},
      {"repeat", repeated(repeat)},
      {"tile", repeated(tile)},
      {"tril", triangle(tril)},
      {"triu", triangle(triu)},
      {"one_hot", [](const Values& in, const Numbers& p) { return one_hot(in[0], p.at(0)); }},
      {"take_along_axis", taken(take_along_axis)},
      {"take", taken(take)},
      {"scatter", stored(scatter)},
      {"scatter_add", stored(scatter_add)},
      {"set_rows", stored(set_rows)},
      {"index_add", stored(index_add)},
      {"cumsum", [](const Values& in, const Numbers& p) { return cumsum(in[0], number(p, 0)); }},
      {"argsort", ordered(argsort)},
      {"sort", ordered(sort)},
      {"softmax", [](const Values& in, const Numbers& p) { return softmax(in[0], number(p, 0)); }},
      {"attention", attention},
      {"attention_parts", attention_parts},
      {"lstm",
       [](const Values& in, const Numbers& p) { return part(lstm(in[0], in[1], at(in, 2), at(in, 3)), p); }},
      {"gru",
       [](const Values& in, const Numbers& p) { return part(gru(in[0], in[1], at(in, 2), at(in, 3)), p); }},
  };
  return table;
}

/// The matrix of a recurrent cell.
bool is_weight(const VectorCase& c, std::size_t operand) {
  return operand == 1 && (c.name == "lstm" || c.name == "gru");
}

TEST(TorchOrder, EveryCase) {
  const std::vector<VectorCase> cases = read_cases(WEFT_TEST_DATA "/torch/order.txt");
  ASSERT_GT(cases.size(), 150U);
  check_cases(cases, order_functions(), {.tolerance = 3e-6, .is_weight = is_weight});
}

}  // namespace
}  // namespace weft
