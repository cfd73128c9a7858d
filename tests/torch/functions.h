#pragma once
// The functions of weft/graph/value.h by their names, as cases of graph_eval write them.
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/graph.h"

namespace weft::torch {

using Values = std::vector<Value>;
using Json = nlohmann::json;
/// A node of its operands and parameters; `shape` reads a shape among the latter.
struct Call {
  const Values& in;
  const Json& p;
  std::function<Shape(const Json&)> shape;
};
using Make = std::function<Value(const Call&)>;

const std::map<std::string, Make>& functions();

}  // namespace weft::torch
