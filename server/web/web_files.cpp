#include "web_files.h"

#include <algorithm>

namespace weft::server {

const WebFile* find_web_file(std::string_view path) {
  const std::span<const WebFile> files = web_files();
  const auto found = std::ranges::lower_bound(files, path, {}, &WebFile::path);
  return found != files.end() && found->path == path ? &*found : nullptr;
}

}  // namespace weft::server
