// Since 0.1
#pragma once
// Custom ops. The shape rule of such an op is the function that makes it:
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
  /// Identifies the function when graphs are compared. Nodes with equal keys, names, types and shapes count
  /// as equal in two graphs; a plan then keeps its function. Empty: a function is equal only to its copies in
  /// copies of the graph.
  std::string key = {};
  /// The rows of the result that are worth a call. Above 0, several threads call the function at once, for
  /// different rows. The result for a row must not depend on the other rows of a call. With 0 it is called
  /// once a step, for all rows.
  std::int64_t rows_per_task = 0;
};

/// A node that a function of the host computes. It runs on the CPU, even if a pin to another device matches
/// it. Values are copied there and back as for any node.
///
/// The sizes of the result may be expressions of symbols. There is one result; an op with several results
/// concatenates them and slices them apart. The function reads inputs in row-major order, and is not called
/// if the result has no elements. Its captures live as long as a graph or plan has the node. It is called
/// while a step runs, so it must not use that plan. Its exceptions end the step with an Error that names the
/// node (kDevice for other exceptions). The plan can then run further steps.
///
/// Throws Error kInvalidArgument for an empty name or function, for sizes below 0 or with unknown symbols,
/// and for types other than F32 and I32.
Value custom(std::string name, std::span<const Value> inputs, Shape shape, CustomFunction function,
             CustomParams params = {}, Where where = Where::current());
Value custom(std::string name, std::initializer_list<Value> inputs, Shape shape, CustomFunction function,
             CustomParams params = {}, Where where = Where::current());

}  // namespace weft

#pragma GCC visibility pop
