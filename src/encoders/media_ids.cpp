#include "encoders/media_ids.h"

#include <atomic>

#include "weft/embedded_part.h"
#include "weft/error.h"

namespace weft::encoders {

std::int32_t take_media_ids(std::int32_t n) {
  static std::atomic<std::int32_t> next = 0;
  std::int32_t first = next.load();
  do {
    if (first > EmbeddedPart::kMaxId - n)
      throw Error(ErrorCode::kUnsupported, "no ids are left for images and audio; restart the program");
  } while (!next.compare_exchange_weak(first, first + n));
  return first;
}

}  // namespace weft::encoders
