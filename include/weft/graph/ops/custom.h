// Since 0.1
#pragma once
// Custom ops: a function of the program computes them on the CPU. weft::custom (graph/custom.h) makes their
// nodes.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weft/dtype.h"
#include "weft/graph/shape.h"

#pragma GCC visibility push(default)

namespace weft {

/// The whole input in a step: elements in row-major order without gaps, even if it is a view.
struct CustomInput {
  DType dtype = DType::kF32;  ///< kF32 or kI32.
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
  /// Its elements. Throws Error kInvalidArgument if dtype is the other type.
  std::span<const float> f32() const;
  std::span<const std::int32_t> i32() const;
};

/// A call of the function: its inputs, and the rows of the result that it must write. Valid during the call.
/// Rows are along the outermost axis; a result without axes has one row.
struct CustomCall {
  std::span<const CustomInput> inputs;
  DType dtype = DType::kF32;            ///< The result's type.
  std::span<const std::int64_t> shape;  ///< The shape of the whole result.
  std::int64_t begin = 0, end = 0;      ///< Rows [begin, end).
  std::span<std::byte> bytes;           ///< The bytes of these rows only, uninitialized.
  /// The elements of these rows. Throws Error kInvalidArgument if the type differs.
  std::span<float> f32() const;
  std::span<std::int32_t> i32() const;
};

using CustomFunction = std::function<void(const CustomCall&)>;

namespace ops {

/// inputs, F32 or I32 -> `shape`, of type `dtype`. Only the CPU has to support it.
struct Custom {
  static constexpr std::string_view kName = "custom";
  static constexpr int kMinInputs = 1, kMaxInputs = 16;
  std::string name;  ///< The op's name in messages and profiles.
  DType dtype = DType::kF32;
  Shape shape;
  std::shared_ptr<const CustomFunction> function;
  std::string key;                 ///< Functions with the same key are equal: see CustomParams::key.
  std::int64_t rows_per_task = 0;  ///< See CustomParams::rows_per_task.
  friend bool operator==(const Custom& a, const Custom& b) {
    const bool same = a.key.empty() && b.key.empty() ? a.function == b.function : a.key == b.key;
    return same && a.name == b.name && a.dtype == b.dtype && a.shape == b.shape &&
           a.rows_per_task == b.rows_per_task;
  }
};

}  // namespace ops
}  // namespace weft

#pragma GCC visibility pop
