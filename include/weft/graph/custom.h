// Since 0.1
#pragma once
// Custom ops: nodes that compute a function of the program on the CPU.
//
//   weft::Value swap_halves(weft::Value x) {
//     return weft::custom("swap_halves", {x}, x.shape(), [](const weft::CustomCall& call) { ... });
//   }
#include <initializer_list>
#include <span>
#include <string>

#include "weft/graph/ops/custom.h"
#include "weft/graph/value.h"

#pragma GCC visibility push(default)

namespace weft {

struct CustomParams {
  DType dtype = DType::kF32;  ///< The result's type: kF32 or kI32.
  /// Identifies the function when a plan compares two graphs (Plan::set_graph). Nodes with the same key,
  /// name, types and shapes are equal, and the plan keeps the function that it has. Empty: a function equals
  /// only its own copies, in copies of the graph.
  std::string key = {};
  /// The least number of result rows per call. Above 0, several threads call the function at once, for
  /// different rows. A row's result must then not depend on which rows a call has. 0: one call per step, for
  /// all rows.
  std::int64_t rows_per_task = 0;
};

/// Makes a node that `function` computes on the CPU, even if a pin to another device matches it. Its inputs
/// and its result are copied between devices as for any node.
///
/// The result's sizes may be expressions of symbols. For several results, concatenate them and slice them
/// apart. Inputs are in row-major order. The function is not called for a result without elements. Its
/// captures live as long as a graph or plan has the node. It is called during a step, so it must not use that
/// plan. If it throws an Error, the step throws that with the node's name; for other exceptions the code is
/// kDevice. The plan can then run further steps.
///
/// Throws Error kInvalidArgument for an empty name or function, for sizes below 0 or with unknown symbols,
/// and for types other than F32 and I32.
Value custom(std::string name, std::span<const Value> inputs, Shape shape, CustomFunction function,
             CustomParams params = {}, Where where = Where::current());
Value custom(std::string name, std::initializer_list<Value> inputs, Shape shape, CustomFunction function,
             CustomParams params = {}, Where where = Where::current());

}  // namespace weft

#pragma GCC visibility pop
