#pragma once
// Finds out whether bytes that are read where a file is mapped are still those that it had when it was
// opened.
//
// A check asks the system for the file's size and times, which takes a microsecond. Where they are as before,
// so are the bytes. Where they are not, the watched bytes are read from the file and compared with their
// hashes: a file that was touched, renamed, removed or written with the same bytes stays in use. Bytes whose
// hash is not known yet count as changed where the file was written to.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "base/mapped_file.h"

namespace weft::base {

/// Any number of threads.
class FileWatch {
 public:
  /// Bytes are watched in pieces of this size, the last one of a part may be smaller.
  static constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

  explicit FileWatch(std::shared_ptr<const MappedFile> file);
  const MappedFile& file() const { return *file_; }

  /// Watches a part of the file's bytes, whose hashes `learn` finds out.
  void add(std::span<const std::byte> part);
  /// Watches a piece, whose bytes had this hash (base::hash64) since the file was opened.
  void add(std::span<const std::byte> piece, std::uint64_t hash);
  /// Reads what is watched and not known yet, once, unless memory is too short to keep it in the system's
  /// cache. Ends early where a stop is requested.
  void learn(const std::stop_token& stop);
  bool knows_all() const;  ///< Whether nothing is left to be learned.

  /// The first bytes of the mapping are the process's own memory from now on.
  void set_own(std::size_t n_bytes);

  /// Throws Error kIo, which names the file, where bytes that are watched, and are not the process's own, are
  /// or were others than when the file was opened. Once it has thrown, it throws always: results since the
  /// last check that did not throw are wrong.
  void check() const;

 private:
  struct Piece {
    std::size_t size = 0;
    std::optional<std::uint64_t> hash;
  };
  std::span<const std::byte> bytes_of(std::size_t offset, const Piece& piece) const;
  std::string find_problem() const;

  const std::shared_ptr<const MappedFile> file_;
  mutable std::mutex mutex_;
  std::map<std::size_t, Piece> pieces_;  // By offset.
  std::size_t n_own_ = 0;
  mutable OpenFile::Stamp known_;  // With which the bytes are as they were.
  mutable std::string problem_;
};

}  // namespace weft::base
