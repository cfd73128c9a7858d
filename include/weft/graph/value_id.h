// Since 0.1
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)

namespace weft {

/// A value of a graph, by its index there.
using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;

}  // namespace weft

#pragma GCC visibility pop
