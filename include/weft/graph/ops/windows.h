// Since 0.1
#pragma once
// Ops over windows: of the rows of a signal.
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

namespace weft::ops {

/// x {t, c} -> {(t + 2 * padding - kernel) / stride + 1, kernel * c}: row r has the rows of x from r * stride
/// - padding on, side by side, with zeros for those that are not there. A convolution over rows is the
/// product of these with its weights.
struct Unfold {
  static constexpr std::string_view kName = "unfold";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  friend bool operator==(const Unfold&, const Unfold&) = default;
};

}  // namespace weft::ops

#pragma GCC visibility pop
