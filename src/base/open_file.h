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
  /// Throws Error kNotFound or kIo, which names the path; also for what is no regular file, without waiting
  /// for anybody who might write to it.
  explicit OpenFile(const std::filesystem::path& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  std::size_t size() const { return stamp_.size; }

  /// What the system says of a file's bytes. They are the same as long as the stamp is; a file that was
  /// renamed, removed or given other permissions has another stamp and the same bytes.
  struct Stamp {
    std::size_t size = 0;
    std::int64_t written_ns = 0;  ///< When its bytes were written last. Programs may set it.
    std::int64_t changed_ns = 0;  ///< When anything of it was changed last. No program sets it.
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  const Stamp& stamp() const { return stamp_; }  ///< When it was opened.
  std::optional<Stamp> stamp_now() const;        ///< Nothing where the system cannot say.

  /// Changes with the file's bytes: made of what the system knew of the file when it was opened, with the
  /// time of its last change, which nobody sets back. The same for a file that was moved, another one for a
  /// copy. Zero, which is nobody's, of a file that was changed in the two seconds before: clocks of file
  /// systems are coarse, and the next change might not be seen. Zero also where the file system seems to make
  /// up the time of the last change (read-only images).
  Hash128 identity() const { return identity_; }
  /// Throws Error kIo where somebody has written to it since it was opened. It may have been moved or
  /// removed.
  void check_unchanged() const;
  /// Reads from that byte on and says how many it got: fewer than asked for where the file ends. Throws Error
  /// kIo. From any thread.
  std::size_t read_at(std::size_t offset, std::span<std::byte> to) const;
  /// Throws Error of what went wrong last, "cannot `action` `path`: reason".
  [[noreturn]] void fail(const char* action) const;

 private:
  const std::filesystem::path path_;
  int descriptor_ = -1;
  Stamp stamp_;
  Hash128 identity_;
};

}  // namespace weft::base
