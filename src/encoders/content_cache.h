#pragma once
// A cache of encoded media by content. Contents are compared, not only hashed, so that no request gets
// another request's image. Used by one thread at a time.
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

  /// Null if the content is not cached.
  std::shared_ptr<const EncodedMedia> find(std::span<const std::byte> content);
  /// Adds an entry and evicts the least recently used ones.
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
  std::list<Entry> entries_;  // Most recently used first.
};

}  // namespace weft::encoders
