#pragma once
// Cases that other libraries have computed: an op's name and parameters, operands, and results. The scripts
// that make the files (scripts/make_*_vectors.py) define the format.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "weft/plan.h"

namespace weft::test {

using Values = std::vector<Value>;
using Numbers = std::vector<std::int64_t>;

struct VectorTensor {
  bool is_float = true;
  Numbers sizes;
  std::vector<double> elements;
};

struct VectorCase {
  std::string name;
  Numbers parameters;
  std::vector<VectorTensor> in;
  VectorTensor out;
};

inline VectorTensor read_tensor(std::istringstream& words) {
  VectorTensor tensor;
  std::string word;
  words >> word;
  tensor.is_float = word == "f32";
  while (words >> word && word != ":") tensor.sizes.push_back(std::stoll(word));
  while (words >> word) tensor.elements.push_back(std::strtod(word.c_str(), nullptr));
  return tensor;
}

inline std::vector<VectorCase> read_cases(const std::string& path) {
  std::vector<VectorCase> cases;
  std::ifstream file(path);
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

inline Shape shape_of(const Numbers& sizes) { return Shape(std::span<const std::int64_t>(sizes)); }
inline int number(const Numbers& p, std::size_t i) { return static_cast<int>(p.at(i)); }

/// Makes the value that a case is about from its operands and parameters.
using Make = std::function<Value(const Values& in, const Numbers& p)>;
/// Functions of one and of two values.
inline Make unary(Value (*f)(Value, Where)) {
  return [f](const Values& in, const Numbers&) { return f(in[0], Where::current()); };
}
inline Make binary(Value (*f)(Value, Value, Where)) {
  return [f](const Values& in, const Numbers&) { return f(in[0], in[1], Where::current()); };
}

struct VectorOptions {
  double tolerance = 2e-6;  ///< Relative to 1 + |expected|.
  /// Which operands are weights of the graph, rather than inputs; null: none.
  bool (*is_weight)(const VectorCase& c, std::size_t operand) = nullptr;
};
/// Every case, on the CPU; `functions` by their names.
inline void check_cases(const std::vector<VectorCase>& cases, const std::map<std::string, Make>& functions,
                        const VectorOptions& options = {}) {
  const Devices devices = open_devices({"cpu"});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const VectorCase& c = cases[i];
    SCOPED_TRACE("case " + std::to_string(i) + " " + c.name);
    Graph g;
    Values in;
    std::vector<std::string> names;
    const auto is_weight = [&](std::size_t k) {
      return options.is_weight != nullptr && options.is_weight(c, k);
    };
    for (const VectorTensor& tensor : c.in) {
      const bool weight = is_weight(in.size());
      names.push_back("in" + std::to_string(names.size()));
      const DType dtype = tensor.is_float ? DType::kF32 : DType::kI32;
      in.push_back(weight ? g.weight(names.back(), dtype, shape_of(tensor.sizes))
                          : g.input(names.back(), shape_of(tensor.sizes), dtype));
    }
    const Value y = g.output("y", functions.at(c.name)(in, c.parameters));
    EXPECT_EQ(y.shape(), shape_of(c.out.sizes));
    std::vector<std::vector<float>> floats(in.size());
    std::vector<std::vector<std::int32_t>> ints(in.size());
    std::vector<Plan::InputData> data;
    for (std::size_t k = 0; k < in.size(); ++k) {
      floats[k].assign(c.in[k].elements.begin(), c.in[k].elements.end());
      ints[k].assign(c.in[k].elements.begin(), c.in[k].elements.end());
      if (is_weight(k)) continue;
      if (c.in[k].is_float) {
        data.emplace_back(names[k], floats[k]);
      } else {
        data.emplace_back(names[k], ints[k]);
      }
    }
    Plan plan(g, devices);
    for (std::size_t k = 0; k < in.size(); ++k)
      if (is_weight(k)) plan.set_weight(names[k], std::as_bytes(std::span(floats[k])));
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
        EXPECT_NEAR(got[k], expected, options.tolerance * (1.0 + std::fabs(expected))) << k;
      } else {
        EXPECT_TRUE(got[k] == expected || (std::isnan(got[k]) && std::isnan(expected))) << k;
      }
    }
  }
}

}  // namespace weft::test
