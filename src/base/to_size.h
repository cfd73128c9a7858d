#pragma once
// The one conversion of counts, indices and positions, which are signed, to sizes of the standard library.
#include <concepts>
#include <cstddef>

#include "base/check.h"

namespace weft {

/// `n` as a size. Debug builds and the address sanitizer check that it is not negative.
template <std::integral N>
constexpr std::size_t to_size(N n) {
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__)
  WEFT_CHECK(n >= 0);
#endif
  return static_cast<std::size_t>(n);
}

}  // namespace weft
