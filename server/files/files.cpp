#include "files/files.h"

#include <utility>

namespace weft::server {

std::shared_ptr<BodySink> Files::sink(std::string_view content_type, std::string owner) {
  const auto boundary = boundary_of(content_type);
  if (!boundary) return nullptr;
  return std::make_shared<Upload>(store, *disk, *boundary, std::move(owner));
}

void Files::stop() {
  batches.stop();
  disk->stop();
}

}  // namespace weft::server
