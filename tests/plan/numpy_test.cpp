// Ops over values of any rank give what NumPy gives (scripts/make_numpy_vectors.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "weft/plan.h"

namespace weft {
namespace {

using Values = std::vector<Value>;
using Numbers = std::vector<std::int64_t>;

struct Tensor {
  bool is_float = true;
  Numbers sizes;
  std::vector<double> elements;
};

struct NumpyCase {
  std::string name;
  Numbers parameters;
  std::vector<Tensor> in;
  Tensor out;
};

Tensor read_tensor(std::istringstream& words) {
  Tensor tensor;
  std::string word;
  words >> word;
  tensor.is_float = word == "f32";
  while (words >> word && word != ":") tensor.sizes.push_back(std::stoll(word));
  while (words >> word) tensor.elements.push_back(std::strtod(word.c_str(), nullptr));
  return tensor;
}

std::vector<NumpyCase> read_cases() {
  std::vector<NumpyCase> cases;
  std::ifstream file(WEFT_TEST_DATA "/numpy/cases.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "case") {
      words >> cases.emplace_back().name;
      for (std::int64_t number = 0; words >> number;) cases.back().parameters.push_back(number);
    } else if (kind == "in") {
      cases.back().in.push_back(read_tensor(words));
    } else {
      cases.back().out = read_tensor(words);
    }
  }
  return cases;
}

Shape shape_of(const Numbers& sizes) { return Shape(std::span<const std::int64_t>(sizes)); }
int number(const Numbers& p, std::size_t i) { return static_cast<int>(p.at(i)); }

using Make = std::function<Value(const Values& in, const Numbers& p)>;

Make unary(Value (*f)(Value, Where)) {
  return [f](const Values& in, const Numbers&) { return f(in[0], Where::current()); };
}
Make binary(Value (*f)(Value, Value, Where)) {
  return [f](const Values& in, const Numbers&) { return f(in[0], in[1], Where::current()); };
}
/// {keep, axes ...}
Make reduction(Value (*f)(Value, std::initializer_list<int>, bool, Where)) {
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
  const std::vector<NumpyCase> cases = read_cases();
  ASSERT_GT(cases.size(), 200U);
  const Devices devices = find_devices({"cpu"});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const NumpyCase& c = cases[i];
    SCOPED_TRACE("case " + std::to_string(i) + " " + c.name);
    Graph g;
    Values in;
    std::vector<std::string> names;
    for (const Tensor& tensor : c.in) {
      names.push_back("in" + std::to_string(names.size()));
      in.push_back(
          g.input(names.back(), shape_of(tensor.sizes), tensor.is_float ? DType::kF32 : DType::kI32));
    }
    const Value y = g.output("y", functions().at(c.name)(in, c.parameters));
    EXPECT_EQ(y.shape(), shape_of(c.out.sizes));
    std::vector<std::vector<float>> floats(in.size());
    std::vector<std::vector<std::int32_t>> ints(in.size());
    std::vector<Plan::InputData> data;
    for (std::size_t k = 0; k < in.size(); ++k) {
      floats[k].assign(c.in[k].elements.begin(), c.in[k].elements.end());
      ints[k].assign(c.in[k].elements.begin(), c.in[k].elements.end());
      if (c.in[k].is_float) {
        data.emplace_back(names[k], floats[k]);
      } else {
        data.emplace_back(names[k], ints[k]);
      }
    }
    Plan plan(g, devices);
    plan.run(std::span<const Plan::SymbolValue>(), data);
    std::vector<double> got;
    if (c.out.is_float) {
      const std::vector<float> read = plan.read("y");
      got.assign(read.begin(), read.end());
    } else {
      std::vector<std::int32_t> read(c.out.elements.size());
      plan.read("y", read);
      got.assign(read.begin(), read.end());
    }
    ASSERT_EQ(got.size(), c.out.elements.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      const double expected = c.out.elements[k];
      if (std::isfinite(expected)) {
        EXPECT_NEAR(got[k], expected, 2e-6 * (1.0 + std::fabs(expected))) << k;
      } else {
        EXPECT_TRUE(got[k] == expected || (std::isnan(got[k]) && std::isnan(expected))) << k;
      }
    }
  }
}

}  // namespace
}  // namespace weft
