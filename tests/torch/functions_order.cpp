// Functions that count, move, order and draw elements.
#include "calls.h"

namespace weft::torch {
namespace {

Make along_axis(Value (*f)(Value, int, Where)) {
  return [f](const Call& c) { return f(c.in.at(0), integer(c.p, "axis"), Where::current()); };
}
Make of_indices(Value (*f)(Value, Value, int, Where)) {
  return [f](const Call& c) { return f(c.in.at(0), c.in.at(1), integer(c.p, "axis"), Where::current()); };
}
Make of_source(Value (*f)(Value, Value, Value, int, Where)) {
  return [f](const Call& c) {
    return f(c.in.at(0), c.in.at(1), c.in.at(2), integer(c.p, "axis"), Where::current());
  };
}
Make of_two(Value (*f)(Value, Value, Where)) {
  return [f](const Call& c) { return f(c.in.at(0), c.in.at(1), Where::current()); };
}
/// A function of two values, or of one and a whole number.
Make divided(Value (*f)(Value, Value, Where), Value (*by_number)(Value, std::int32_t, Where)) {
  return [f, by_number](const Call& c) {
    if (c.in.size() == 2) return f(c.in[0], c.in[1], Where::current());
    return by_number(c.in.at(0), integer(c.p, "number"), Where::current());
  };
}
Make repeated(Value (*f)(Value, std::int64_t, int, Where)) {
  return [f](const Call& c) {
    return f(c.in.at(0), wide(c.p, "times"), integer(c.p, "axis"), Where::current());
  };
}
Make triangle(Value (*f)(Value, std::int64_t, Where)) {
  return [f](const Call& c) { return f(c.in.at(0), wide(c.p, "diagonal"), Where::current()); };
}
Make ordered(Value (*f)(Value, int, bool, Where)) {
  return [f](const Call& c) {
    return f(c.in.at(0), integer(c.p, "axis"), flag(c.p, "descending"), Where::current());
  };
}
Make random(Value (*f)(Value, Shape, std::uint64_t, float, float, Where)) {
  return [f](const Call& c) {
    return f(c.in.at(0), c.shape(c.p.at("shape")), c.p.at("seed").get<std::uint64_t>(), number(c.p, "a"),
             number(c.p, "b"), Where::current());
  };
}

Value stacked(const Call& c) {
  const int axis = integer(c.p, "axis");
  if (c.in.size() == 1) return stack({c.in[0]}, axis);
  if (c.in.size() == 2) return stack({c.in[0], c.in[1]}, axis);
  return stack({c.in.at(0), c.in.at(1), c.in.at(2)}, axis);
}

Value part(const Call& c) {
  const int axis = integer(c.p, "axis");
  const auto which = static_cast<std::size_t>(integer(c.p, "which"));
  if (c.p.contains("parts")) return split(c.in.at(0), integer(c.p, "parts"), axis).at(which);
  std::vector<Dim> sizes;
  for (const Json& size : c.p.at("sizes")) sizes.emplace_back(size.get<std::int64_t>());
  return split(c.in.at(0), sizes, axis).at(which);
}

}  // namespace

std::map<std::string, Make> order_functions() {
  return {
      {"arange",
       [](const Call& c) {
         return arange(c.graph, wide(c.p, "begin"), wide(c.p, "end"), wide(c.p, "step"),
                       dtype_from_name(c.p.at("dtype").get<std::string>()).value());
       }},
      {"full", [](const Call& c) { return full(c.graph, c.shape(c.p.at("shape")), number(c.p, "value")); }},

      {"cast_i32", [](const Call& c) { return cast(c.in.at(0), DType::kI32); }},
      {"cast_f32", [](const Call& c) { return cast(c.in.at(0), DType::kF32); }},
      {"floor_divide", divided(floor_divide, floor_divide)},
      {"remainder", divided(remainder, remainder)},
      {"logical_and", of_two(logical_and)},
      {"logical_or", of_two(logical_or)},
      {"logical_not", unary(logical_not)},
      {"isnan", unary(isnan)},
      {"isinf", unary(isinf)},
      {"isfinite", unary(isfinite)},
      {"erf", unary(erf)},
      {"expm1", unary(expm1)},
      {"log1p", unary(log1p)},

      {"prod", reduction(prod)},
      {"logsumexp", reduction(logsumexp)},
      {"any", reduction(any)},
      {"all", reduction(all)},
      {"argmin", [](const Call& c) { return argmin(c.in.at(0), integer(c.p, "axis"), flag(c.p, "keep")); }},

      {"flip", [](const Call& c) { return flip(c.in.at(0), axes(c.p)); }},
      {"stack", stacked},
      {"split", part},
      {"repeat", repeated(repeat)},
      {"tile", repeated(tile)},
      {"tril", triangle(tril)},
      {"triu", triangle(triu)},
      {"one_hot", [](const Call& c) { return one_hot(c.in.at(0), wide(c.p, "classes")); }},

      {"take_axis", of_indices(take)},
      {"take_along_axis", of_indices(take_along_axis)},
      {"scatter", of_source(scatter)},
      {"scatter_add", of_source(scatter_add)},
      {"set_rows", of_source(set_rows)},
      {"index_add", of_source(index_add)},

      {"cumsum", along_axis(cumsum)},
      {"argsort", ordered(argsort)},
      {"sort", ordered(sort)},

      {"random_uniform", random(random_uniform)},
      {"random_normal", random(random_normal)},
  };
}

}  // namespace weft::torch
