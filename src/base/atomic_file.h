#pragma once
// A file that appears whole or not at all. It is written without a name where the file system allows that,
// otherwise under another name next to its place. It is flushed to disk, then renamed to its place.
//
// A writer that is killed leaves the old file as it was. Where files can be without a name, it leaves nothing
// else. Elsewhere, and in the instant before the end, it leaves a file PATH.tmp-N. Writers lock their
// temporary files while they live. So the next writer of that path recognizes and removes abandoned ones.
#include <cstddef>
#include <filesystem>
#include <span>

namespace weft::base {

class AtomicFile {
 public:
  /// If `path` is a symbolic link, its target is replaced or created. The new file has the permissions of the
  /// old, or else `mode` as far as the process's mask allows. Throws Error kIo if the folder cannot be
  /// written or `path` exists and is not a regular file.
  explicit AtomicFile(const std::filesystem::path& path, unsigned mode = 0666);
  ~AtomicFile();  ///< Leaves what stood at `path`, unless commit() has returned.
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws Error kIo.
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  bool open_without_name(unsigned mode);
  void open_with_name(unsigned mode);
  void link();
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // Empty while the file has no name.
  int fd_ = -1;
};

/// Removes a writer's temporary file whose writer is gone. False where it lives, or nothing can be known.
bool remove_abandoned(const std::filesystem::path& temporary);

}  // namespace weft::base
