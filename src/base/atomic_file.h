#pragma once
// A file that appears whole or not at all: written without a name where the file system can do that, else
// under another name beside its place, brought to the disk, and put in its place at once.
//
// A writer that is killed leaves the old file as it was. Of its own it leaves nothing where files can be
// without a name; elsewhere, and in the instant before the end, a file PATH.tmp-N. Writers lock theirs as
// long as they live, so the next writer of that path knows and removes what nobody writes any more.
#include <cstddef>
#include <filesystem>
#include <span>

namespace weft::base {

class AtomicFile {
 public:
  /// Of a symbolic link it is the target that is replaced, or made. The new file has the permissions of the
  /// old. Throws Error kIo where the folder cannot be written, and for what is there and no regular file.
  explicit AtomicFile(const std::filesystem::path& path);
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
