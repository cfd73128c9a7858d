#pragma once

namespace weft::convert_impl {

/// Increase this version whenever the converter's output changes: converted folders in caches are then
/// converted again. A test compares the output of some folders.
inline constexpr int kConverterVersion = 7;

}  // namespace weft::convert_impl
