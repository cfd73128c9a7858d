#pragma once
// What was encoded, by its content: compared, not only hashed, so that nobody gets another's picture. Used by
// one thread at a time.
#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "base/hash.h"
#include "weft/media.h"

namespace weft::encoders {

class ContentCache {
 public:
  explicit ContentCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Null where this content is not there.
  std::shared_ptr<const EncodedMedia> find(std::span<const std::byte> content);
  /// Keeps it, and gives up those that were of use least recently.
  void add(std::vector<std::byte> content, std::shared_ptr<const EncodedMedia> encoded);

 private:
  struct Entry {
    base::Hash128 hash;
    std::vector<std::byte> content;
    std::shared_ptr<const EncodedMedia> encoded;
    std::size_t bytes;
  };
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // The one used last first.
};

}  // namespace weft::encoders
