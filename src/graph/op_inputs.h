#pragma once
// Shared by shape rules: the inputs of an op and the checks.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/to_size.h"
#include "weft/error.h"
#include "weft/graph/op.h"

namespace weft {

/// Devices keep rows of heads in small memories.
inline constexpr std::int64_t kMaxHeadDim = 4096;

[[noreturn]] inline void refuse_op(std::string_view op, const std::string& reason) {
  throw Error(ErrorCode::kInvalidArgument, std::string(op) + ": " + reason);
}

/// The inputs of one op with the checks that the rules share.
class Inputs {
 public:
  Inputs(std::string_view op, std::span<const ValueType> types) : op_(op), types_(types) {}

  int size() const { return static_cast<int>(types_.size()); }
  bool has(int i) const { return i < size(); }
  DType dtype(int i) const { return types_[to_size(i)].dtype; }
  const Shape& shape(int i) const { return types_[to_size(i)].shape; }

  /// A dimension that no step changes.
  std::int64_t size(int i, int dim) const {
    require(shape(i)[dim].is_constant(), i, "must have constant dimensions here");
    return shape(i)[dim].constant();
  }
  void require(bool condition, int i, const char* expected) const {
    if (!condition) refuse_op(op_, "input " + std::to_string(i) + " " + expected);
  }
  void f32(int i, int min_rank = 2) const {
    require(types_[to_size(i)].dtype == DType::kF32, i, "must be f32");
    require(shape(i).rank() >= min_rank, i, "has too few dimensions");
    require(shape(i).back().is_constant(), i, "must have a constant number of columns");
  }
  void integer(int i, DType dtype, int rank) const {
    require(types_[to_size(i)].dtype == dtype, i, "has the wrong integer type");
    require(shape(i).rank() == rank, i, "has the wrong number of dimensions");
  }
  /// Checks that a kind exists: enumerators may come from untrusted numbers.
  template <typename Kind>
  void known(Kind kind, Kind last) const {
    if (kind > last) refuse_op(op_, "there is no kind " + std::to_string(static_cast<int>(kind)) + " of it");
  }
  /// A float vector of n elements, shared by all rows.
  void vector(int i, std::int64_t n) const {
    require(types_[to_size(i)].dtype == DType::kF32, i, "must be f32");
    require(shape(i).rank() == 1 && shape(i)[0] == Dim(n), i, "must be one vector as long as a row");
  }
  /// Of any shape.
  void any_f32(int i) const { require(types_[to_size(i)].dtype == DType::kF32, i, "must be f32"); }
  void f32_or_i32(int i) const {
    require(dtype(i) == DType::kF32 || dtype(i) == DType::kI32, i, "must be f32 or i32");
  }
  void index_per_row(int i, int x) const {
    integer(i, DType::kI32, 1);
    require(shape(i)[0] == shape(x).row_dim(), i, "must have one entry per row");
  }

  /// NumPy's broadcasting of inputs i to n - 1.
  Shape broadcast(int i, int n) const;

 private:
  std::string_view op_;
  std::span<const ValueType> types_;
};

inline ValueType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

}  // namespace weft
