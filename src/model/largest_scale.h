#pragma once

namespace weft::model {

/// The largest scale of an adapter (its own, alpha / rank, times the scale of its use) and of control
/// vectors. A larger one is a typing error, and would turn the model's values into infinities or NaN.
inline constexpr float kLargestScale = 1e6f;

}  // namespace weft::model
