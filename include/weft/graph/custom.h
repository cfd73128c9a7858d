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
  /// Stands for the function where graphs are compared. Two graphs whose nodes have equal keys, names, types
  /// and shapes there are the same, and a plan goes on with the function that it has. Empty: a function is
  /// equal to its copies in copies of the graph alone.
  std::string key = {};
  /// The rows of the result that are worth a call. Above 0 the function is called from several threads at
  /// once, for different rows; what it gives for a row must not depend on the others of a call. 0: it is
  /// called once a step, for all rows.
  std::int64_t rows_per_task = 0;
};

/// A node that is computed by a function of the host: on the CPU, also where a pin fits it that sends what it
/// fits to another device. Values are copied there and back as for any node.
///
/// The sizes of the result may be expressions of symbols. There is one result; of an op with several, they
/// stand side by side in one, and are sliced apart. The function reads inputs whose elements lie row after
/// row, and is not called where the result has no elements. It holds what it captures as long as a graph or
/// plan has the node. It is called while a step runs, so it must not use that plan. What it throws ends the
/// step with that Error, of kDevice where it is none, that names the node; the plan can take further steps.
///
/// Throws Error kInvalidArgument for a name or function that is none, sizes below 0 or of symbols that the
/// graph has not, and types that are neither F32 nor I32.
Value custom(std::string name, std::span<const Value> inputs, Shape shape, CustomFunction function,
             CustomParams params = {}, Where where = Where::current());
Value custom(std::string name, std::initializer_list<Value> inputs, Shape shape, CustomFunction function,
             CustomParams params = {}, Where where = Where::current());

}  // namespace weft

#pragma GCC visibility pop
