// Since 0.1
#pragma once
// Views of x, F32 or I32: other shapes of the same elements, which a device need not copy.
#include <array>
#include <cstdint>
#include <string_view>

#include "weft/graph/shape.h"

#pragma GCC visibility push(default)

namespace weft::ops {

/// The same elements in the same order.
struct Reshape {
  static constexpr std::string_view kName = "reshape";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  Shape shape = {};
  friend bool operator==(const Reshape&, const Reshape&) = default;
};

/// Axis i of the result is axis axes[i] of x.
struct Permute {
  static constexpr std::string_view kName = "permute";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  std::array<int, Shape::kMaxRank> axes = {0, 1, 2, 3};
  friend bool operator==(const Permute&, const Permute&) = default;
};

/// The elements begin, begin + step, ... below end of an axis. In each step 0 <= begin <= end <= size.
struct Slice {
  static constexpr std::string_view kName = "slice";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  int axis = 0;
  Dim begin = 0, end = 0;
  std::int64_t step = 1;
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// x broadcast to a shape.
struct BroadcastTo {
  static constexpr std::string_view kName = "broadcast_to";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  Shape shape = {};
  friend bool operator==(const BroadcastTo&, const BroadcastTo&) = default;
};

/// x with the axes reversed whose bits are set (bit 0: axis 0).
struct Flip {
  static constexpr std::string_view kName = "flip";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  std::uint32_t axes = 0;
  friend bool operator==(const Flip&, const Flip&) = default;
};

}  // namespace weft::ops

#pragma GCC visibility pop
