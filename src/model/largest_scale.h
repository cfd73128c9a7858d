#pragma once

namespace weft::model {

/// Of an adapter (its own, alpha / rank, with that of its use) and of control vectors: what is larger is a
/// slip of the pen, and would make numbers of the model that are none.
inline constexpr float kLargestScale = 1e6f;

}  // namespace weft::model
