#pragma once
// Encoded pictures by their pixels: compared, not only hashed, so that nobody gets another's picture. Used by
// one thread at a time.
#include <list>
#include <memory>

#include "base/hash.h"
#include "weft/vision.h"

namespace weft::vision {

class ImageCache {
 public:
  explicit ImageCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Null where the picture of these tiles is not there.
  std::shared_ptr<const EncodedImage> find(const std::vector<Image>& tiles);
  /// Keeps it, and gives up those that were of use least recently.
  void add(std::vector<Image> tiles, std::shared_ptr<const EncodedImage> encoded);

 private:
  struct Entry {
    base::Hash128 hash;
    std::vector<Image> tiles;
    std::shared_ptr<const EncodedImage> encoded;
    std::size_t bytes;
  };
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // The one used last first.
};

}  // namespace weft::vision
