// Since 0.1
#pragma once
// Ops of a user's own in the language. The shape rule of such an op is the function that makes it:
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
  DType dtype = DType::kF32;  ///< Of the result: kF32 or kI32.
  /// Stands for the function where graphs are compared. Nodes with equal keys, names, types and shapes count
  /// as the same in two graphs; a plan then keeps its function. Empty: a function is equal to its copies in
  /// copies of the graph alone.
  std::string key = {};
  /// The rows of the result that are worth a call. Above 0, several threads call the function at once, for
  /// different rows. The result for a row must not depend on the other rows of a call. With 0 it is called
  /// once a step, for all rows.
  std::int64_t rows_per_task = 0;
};

/// A node that a function of the host computes. It runs on the CPU, even if a pin to another device matches
/// it. Values are copied there and back as for any node.
///
/// The sizes of the result may be expressions of symbols. There is one result; of an op with several, they
/// stand side by side in one, and are sliced apart. The function reads inputs whose elements lie row after
/// row, and is not called where the result has no elements. Its captures live as long as a graph or plan has
/// the node. It is called while a step runs, so it must not use that plan. What it throws ends the step with
/// that Error, of kDevice where it is none, that names the node; the plan can take further steps.
///
/// Throws Error kInvalidArgument for an empty name or function, for sizes below 0 or with unknown symbols,
/// and for types other than F32 and I32.
Value custom(std::string name, std::span<const Value> inputs, Shape shape, CustomFunction function,
             CustomParams params = {}, Where where = Where::current());
Value custom(std::string name, std::initializer_list<Value> inputs, Shape shape, CustomFunction function,
             CustomParams params = {}, Where where = Where::current());

}  // namespace weft

#pragma GCC visibility pop
