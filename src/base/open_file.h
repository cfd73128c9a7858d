#pragma once
// A regular file, open for reading.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "base/hash.h"

namespace weft::base {

class OpenFile {
 public:
  /// Throws Error kNotFound or kIo, which names the path. Also for anything but a regular file, without
  /// waiting for a writer.
  explicit OpenFile(const std::filesystem::path& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  std::size_t size() const { return stamp_.size; }

  /// What the system reports about a file's bytes. While the stamp is the same, so are the bytes. Renaming,
  /// removing and other permissions change the stamp, but not the bytes.
  struct Stamp {
    std::size_t size = 0;
    std::int64_t written_ns = 0;  ///< When its bytes were written last. Programs may set it.
    std::int64_t changed_ns = 0;  ///< When anything of it was changed last. No program sets it.
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  const Stamp& stamp() const { return stamp_; }  ///< When it was opened.
  std::optional<Stamp> stamp_now() const;        ///< Nothing where the system cannot say.

  /// Changes with the file's bytes. Computed from the system's metadata of the file when it was opened, with
  /// the time of its last change, which no program can set. A moved file keeps it, a copy gets another one.
  /// Zero, which means none, if the file was changed in the two seconds before. Clocks of file systems are
  /// coarse, so the next change might not be seen. Zero also where the file system seems to invent the time
  /// of the last change (read-only images).
  Hash128 identity() const { return identity_; }
  /// Throws Error kIo where the file was written to since it was opened. It may have been moved or removed.
  void check_unchanged() const;
  /// Reads from that byte on and returns the number of bytes: fewer than asked for where the file ends.
  /// Throws Error kIo. From any thread.
  std::size_t read_at(std::size_t offset, std::span<std::byte> to) const;
  /// Throws Error for errno: "cannot `action` `path`: reason".
  [[noreturn]] void fail(const char* action) const;

 private:
  const std::filesystem::path path_;
  int descriptor_ = -1;
  Stamp stamp_;
  Hash128 identity_;
};

}  // namespace weft::base
