#pragma once
// The functions of the graph language by their names, as cases of graph_eval write them.
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
  Graph& graph;
  const Values& in;
  const Json& p;
  std::function<Shape(const Json&)> shape;
};
using Make = std::function<Value(const Call&)>;

const std::map<std::string, Make>& functions();

/// Those of each kind.
std::map<std::string, Make> elementary_functions();
std::map<std::string, Make> order_functions();
std::map<std::string, Make> sequence_functions();
std::map<std::string, Make> window_functions();

}  // namespace weft::torch
