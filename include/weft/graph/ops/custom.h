// Since 0.1
#pragma once
// Ops of users: a function of the host computes them. weft::custom (graph/custom.h) makes one.
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

/// An input in one step, whole: elements row after row without gaps, whatever it is a view of.
struct CustomInput {
  DType dtype = DType::kF32;  ///< kF32 or kI32.
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
  /// The elements. Throws Error kInvalidArgument where they have the other type.
  std::span<const float> f32() const;
  std::span<const std::int32_t> i32() const;
};

/// The arguments of a function, valid during the call: its inputs, and the rows of its result that it must
/// write. Rows go along the outermost axis; a result without axes has one.
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

/// inputs, F32 or I32 -> `dtype` of `shape`. Devices other than the CPU need not know it.
struct Custom {
  static constexpr std::string_view kName = "custom";
  static constexpr int kMinInputs = 1, kMaxInputs = 16;
  std::string name;  ///< The op's name in messages and profiles.
  DType dtype = DType::kF32;
  Shape shape;
  std::shared_ptr<const CustomFunction> function;
  std::string key;                 ///< Functions of one key are the same.
  std::int64_t rows_per_task = 0;  ///< 0: one call has all rows.
  friend bool operator==(const Custom& a, const Custom& b) {
    const bool same = a.key.empty() && b.key.empty() ? a.function == b.function : a.key == b.key;
    return same && a.name == b.name && a.dtype == b.dtype && a.shape == b.shape &&
           a.rows_per_task == b.rows_per_task;
  }
};

}  // namespace ops
}  // namespace weft

#pragma GCC visibility pop
