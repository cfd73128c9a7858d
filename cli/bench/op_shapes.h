#pragma once
// weft bench --ops: THE table of shapes that ops are measured with.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "weft/graph.h"

namespace weft::cli {

/// An op with operands of usual sizes.
struct OpShape {
  std::string op;                   ///< "linear"
  std::string dtype;                ///< Of the weight, where there is one; f32 elsewhere.
  std::vector<std::int64_t> sizes;  ///< The sizes in `text`.
  std::string text;                 ///< "32 x 2048 -> 8192"
  /// The result; leaves of the graph are the operands.
  std::function<Value(Graph&)> build;
  double multiply_adds = 0.0;  ///< 0: memory alone is its limit.
  /// The values of I32 inputs, by name.
  std::map<std::string, std::int32_t> indices = {};

  std::string name() const { return op + " " + dtype + " " + text; }
};

std::vector<OpShape> op_shapes();

}  // namespace weft::cli
