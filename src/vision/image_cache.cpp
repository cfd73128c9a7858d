#include "vision/image_cache.h"

#include <algorithm>

namespace weft::vision {
namespace {

base::Hash128 hash_of(const std::vector<Image>& tiles) {
  base::Hasher hasher;
  for (const Image& tile : tiles) {
    hasher.add_value(tile.width);
    hasher.add_value(tile.height);
    hasher.add(std::as_bytes(std::span(tile.rgb)));
  }
  return hasher.result();
}

bool is_same(const Image& a, const Image& b) {
  return a.width == b.width && a.height == b.height && a.rgb == b.rgb;
}

}  // namespace

std::shared_ptr<const EncodedImage> ImageCache::find(const std::vector<Image>& tiles) {
  const base::Hash128 hash = hash_of(tiles);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.hash == hash &&
           std::equal(tiles.begin(), tiles.end(), entry.tiles.begin(), entry.tiles.end(), is_same);
  });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->encoded;
}

void ImageCache::add(std::vector<Image> tiles, std::shared_ptr<const EncodedImage> encoded) {
  std::size_t bytes = encoded->rows.size() * sizeof(float);
  for (const Image& tile : tiles) bytes += tile.rgb.size();
  if (bytes > max_bytes_) return;
  const base::Hash128 hash = hash_of(tiles);
  entries_.push_front({hash, std::move(tiles), std::move(encoded), bytes});
  for (bytes_ += bytes; bytes_ > max_bytes_; entries_.pop_back()) bytes_ -= entries_.back().bytes;
}

}  // namespace weft::vision
