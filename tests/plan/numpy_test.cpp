// Ops over values of any rank give what NumPy gives (scripts/make_numpy_vectors.py).
#include "plan/vectors.h"

namespace weft {
namespace {

using test::binary;
using test::Make;
using test::number;
using test::Numbers;
using test::shape_of;
using test::unary;
using test::Values;

/// {keep, axes ...}
Make reduction(Value (*f)(Value, const Axes&, bool, Where)) {
  return [f](const Values& in, const Numbers& p) {
    const bool keep = p[0] != 0;
    switch (p.size()) {
      case 2:
        return f(in[0], {number(p, 1)}, keep, Where::current());
      case 3:
        return f(in[0], {number(p, 1), number(p, 2)}, keep, Where::current());
      default:
        return f(in[0], {}, keep, Where::current());
    }
  };
}

const std::map<std::string, Make>& functions() {
  static const std::map<std::string, Make> table = {
      {"neg", [](const Values& in, const Numbers&) { return -in[0]; }},
      {"abs", unary(abs)},
      {"square", unary(square)},
      {"sqrt", unary(sqrt)},
      {"rsqrt", unary(rsqrt)},
      {"reciprocal", unary(reciprocal)},
      {"exp", unary(exp)},
      {"log", unary(log)},
      {"sin", unary(sin)},
      {"cos", unary(cos)},
      {"tanh", unary(tanh)},
      {"sigmoid", unary(sigmoid)},
      {"floor", unary(floor)},
      {"ceil", unary(ceil)},
      {"round", unary(round)},
      {"clamp",
       [](const Values& in, const Numbers& p) {
         return clamp(in[0], static_cast<float>(p[0]), static_cast<float>(p[1]));
       }},
      {"add", [](const Values& in, const Numbers&) { return in[0] + in[1]; }},
      {"sub", [](const Values& in, const Numbers&) { return in[0] - in[1]; }},
      {"mul", [](const Values& in, const Numbers&) { return in[0] * in[1]; }},
      {"div", [](const Values& in, const Numbers&) { return in[0] / in[1]; }},
      {"maximum", binary(maximum)},
      {"minimum", binary(minimum)},
      {"pow", binary(pow)},
      {"equal", binary(equal)},
      {"not_equal", binary(not_equal)},
      {"less", binary(less)},
      {"less_equal", binary(less_equal)},
      {"greater", binary(greater)},
      {"greater_equal", binary(greater_equal)},
      {"where", [](const Values& in, const Numbers&) { return where(in[0], in[1], in[2]); }},
      {"sum", reduction(sum)},
      {"mean", reduction(mean)},
      {"max", reduction(max)},
      {"min", reduction(min)},
      {"var", reduction(var)},
      {"argmax", [](const Values& in, const Numbers& p) { return argmax(in[0], number(p, 0)); }},
      {"matmul", binary(matmul)},
      {"matmul_nt", [](const Values& in, const Numbers&) { return matmul(in[0], transpose(in[1])); }},
      {"matmul_tn", [](const Values& in, const Numbers&) { return matmul(transpose(in[0]), in[1]); }},
      {"permute",
       [](const Values& in, const Numbers& p) {
         return permute(in[0], {number(p, 0), number(p, 1), number(p, 2)});
       }},
      {"slice", [](const Values& in,
                   const Numbers& p) { return slice(in[0], number(p, 0), p.at(1), p.at(2), p.at(3)); }},
      {"reshape", [](const Values& in, const Numbers& p) { return reshape(in[0], shape_of(p)); }},
      {"permute_reshape",
       [](const Values& in, const Numbers& p) { return reshape(permute(in[0], {2, 0, 1}), shape_of(p)); }},
      {"broadcast_to", [](const Values& in, const Numbers& p) { return broadcast_to(in[0], shape_of(p)); }},
      {"concat",
       [](const Values& in, const Numbers& p) { return concat({in[0], in[1], in[2]}, number(p, 0)); }},
      {"pad", [](const Values& in, const Numbers& p) { return pad(in[0], number(p, 0), p.at(1), p.at(2)); }},
  };
  return table;
}

TEST(Numpy, EveryCase) {
  const std::vector<test::VectorCase> cases = test::read_cases(WEFT_TEST_DATA "/numpy/cases.txt");
  ASSERT_GT(cases.size(), 200U);
  test::check_cases(cases, functions());
}

}  // namespace
}  // namespace weft
