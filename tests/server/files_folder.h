#pragma once
// A folder of --files for a test.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "files/file_store.h"

namespace weft::server {

class FilesFolder {
 public:
  FilesFolder() {
    static std::atomic<int> n{0};
    path = std::filesystem::temp_directory_path() /
           ("weft_files_" + std::to_string(::getpid()) + "_" + std::to_string(n++));
    std::filesystem::remove_all(path);
  }
  ~FilesFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  FilesFolder(const FilesFolder&) = delete;
  FilesFolder& operator=(const FilesFolder&) = delete;

  FilesSetup setup() const { return {.folder = path}; }

  std::filesystem::path path;
};

inline FileInfo add_file(FileStore& store, std::string_view content, FileInfo info = {}) {
  const auto file = store.begin(info.owner);
  file->write(content);
  return store.add(*file, std::move(info));
}

inline std::string content_of(const FileStore& store, const std::string& id) {
  const auto file = store.open(id);
  std::string content(file->size(), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(content)));
  return content;
}

}  // namespace weft::server
