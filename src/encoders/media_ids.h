#pragma once
// The numbers of pictures and sounds (EncodedMedia::id).
#include <cstdint>

namespace weft::encoders {

/// The first of n numbers in a row that nobody in this process has had: what is in a batcher's cache may be
/// of a model that is gone. From any thread. Throws Error kUnsupported where none are left.
std::int32_t take_media_ids(std::int32_t n);

}  // namespace weft::encoders
