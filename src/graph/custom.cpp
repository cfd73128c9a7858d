// Custom ops.
#include "weft/graph/custom.h"

#include <string>
#include <utility>

#include "graph/op_inputs.h"
#include "graph/operands.h"
#include "graph/refuse.h"

namespace weft {
namespace {

template <typename T, typename Byte>
std::span<T> elements(std::span<Byte> bytes, DType own, DType asked) {
  if (own != asked)
    throw Error(ErrorCode::kInvalidArgument,
                "elements are read or written as " + std::string(info(asked).name) + " that are not");
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

std::span<const float> CustomInput::f32() const { return elements<const float>(bytes, dtype, DType::kF32); }
std::span<const std::int32_t> CustomInput::i32() const {
  return elements<const std::int32_t>(bytes, dtype, DType::kI32);
}
std::span<float> CustomCall::f32() const { return elements<float>(bytes, dtype, DType::kF32); }
std::span<std::int32_t> CustomCall::i32() const { return elements<std::int32_t>(bytes, dtype, DType::kI32); }

ValueType rule(const ops::Custom& op, const Inputs& in) {
  if (op.name.empty()) refuse_op(op.kName, "an op of one's own needs a name");
  if (op.function == nullptr || *op.function == nullptr) refuse_op(op.name, "it has no function");
  if (op.dtype != DType::kF32 && op.dtype != DType::kI32) refuse_op(op.name, "it gives f32 or i32");
  if (op.rows_per_task < 0) refuse_op(op.name, "its rows_per_task are below 0");
  for (int i = 0; i < op.shape.rank(); ++i)
    if (op.shape[i].is_constant() && op.shape[i].constant() < 0)
      refuse_op(op.name, "its result has a negative size");
  for (int i = 0; i < in.size(); ++i) in.f32_or_i32(i);
  return {op.dtype, op.shape};
}

Value custom(std::string name, std::span<const Value> inputs, Shape shape, CustomFunction function,
             CustomParams params, Where where) {
  for (const Value& input : inputs) check("custom", input, shape, where);
  ops::Custom op;
  op.name = std::move(name);
  op.dtype = params.dtype;
  op.shape = std::move(shape);
  op.function = std::make_shared<const CustomFunction>(std::move(function));
  op.key = std::move(params.key);
  op.rows_per_task = params.rows_per_task;
  return apply(std::move(op), inputs, where);
}
Value custom(std::string name, std::initializer_list<Value> inputs, Shape shape, CustomFunction function,
             CustomParams params, Where where) {
  return custom(std::move(name), std::span(inputs.begin(), inputs.size()), std::move(shape),
                std::move(function), std::move(params), where);
}

}  // namespace weft
