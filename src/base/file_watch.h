#pragma once
// Finds out whether the bytes of a mapped file have changed since it was opened.
//
// A check asks the system for the file's size and times, which takes a microsecond. If these are unchanged,
// so are the bytes. Otherwise the watched bytes are read from the file and compared with their hashes. So a
// file that was touched, renamed, removed or written with the same bytes stays in use. If the file was
// written to, bytes whose hash is not known yet count as changed.
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

/// Thread-safe.
class FileWatch {
 public:
  /// Bytes are watched in pieces of this size, the last one of a part may be smaller.
  static constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

  explicit FileWatch(std::shared_ptr<const MappedFile> file);
  const MappedFile& file() const { return *file_; }

  /// Watches a part of the file's bytes; `learn` computes their hashes.
  void add(std::span<const std::byte> part);
  /// Watches a piece, whose bytes had this hash (base::hash64) since the file was opened.
  void add(std::span<const std::byte> piece, std::uint64_t hash);
  /// Hashes the watched bytes whose hash is not known yet, unless the system's cache cannot hold them in the
  /// available memory. Ends early where a stop is requested.
  void learn(const std::stop_token& stop);
  bool knows_all() const;  ///< Whether all hashes are known.

  /// The first bytes of the mapping are the process's own memory from now on.
  void set_own(std::size_t n_bytes);

  /// Throws Error kIo, which names the file, where watched bytes outside the process's own memory changed
  /// since the file was opened. Once it has thrown, it always throws. Results since the last check that did
  /// not throw are then invalid.
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
