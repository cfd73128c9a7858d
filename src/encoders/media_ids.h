#pragma once
// The ids of images and audio (EncodedMedia::id).
#include <cstdint>

namespace weft::encoders {

/// Returns the first of n consecutive ids that are unused in this process. Ids are never reused: a batcher's
/// cache may hold media of a model that was closed. Thread-safe. Throws Error kUnsupported if none are left.
std::int32_t take_media_ids(std::int32_t n);

}  // namespace weft::encoders
