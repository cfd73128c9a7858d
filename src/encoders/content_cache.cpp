#include "encoders/content_cache.h"

#include <algorithm>
#include <utility>

namespace weft::encoders {
namespace {

base::Hash128 hash_of(std::span<const std::byte> content) {
  base::Hasher hasher;
  hasher.add(content);
  return hasher.result();
}

}  // namespace

std::shared_ptr<const EncodedMedia> ContentCache::find(std::span<const std::byte> content) {
  const base::Hash128 hash = hash_of(content);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.hash == hash &&
           std::equal(content.begin(), content.end(), entry.content.begin(), entry.content.end());
  });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->encoded;
}

void ContentCache::add(std::vector<std::byte> content, std::shared_ptr<const EncodedMedia> encoded) {
  const std::size_t bytes = encoded->rows.size() * sizeof(float) + content.size();
  if (bytes > max_bytes_) return;
  const base::Hash128 hash = hash_of(content);
  entries_.push_front({hash, std::move(content), std::move(encoded), bytes});
  for (bytes_ += bytes; bytes_ > max_bytes_; entries_.pop_back()) bytes_ -= entries_.back().bytes;
}

}  // namespace weft::encoders
