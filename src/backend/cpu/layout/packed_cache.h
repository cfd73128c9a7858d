#pragma once
// Packed weights on disk: the first start of a model packs them, the next ones map them.
//
// A file of the folder holds the packed matrices of one model, under the model's name and a key:
//
//   [matrices, each from a multiple of 4096 on] [table of entries] [trailer]
//
// The trailer comes last because a file is written from front to back; it appears whole or not at all
// (base/atomic_file.h).
//
// A start gets from it exactly what packing the model's present files would give:
//
// - The loading threads read each matrix from the file, not through the mapping, and compare it with its
//   checksum before use. That costs as much as a step that reads all weights, and the first step finds them
//   in memory. After that a FileWatch makes steps fail if the file changes.
// - Each matrix has a hash of all the bytes that it was packed from. If the system says that the model's
//   files are the same and unchanged, they are not read (base/open_file.h: a change whose time was set back
//   is noticed). Otherwise, or if that is not known, they are read and their hashes compared. So a model that
//   was copied, touched or downloaded again is still mapped, and the next start skips the comparison.
// - A file that fails a check is removed. The failing matrix is packed, the others are checked one by one,
//   and the next start writes another file.
//
// The cache is optional: if it fails (no folder, no space, a write error), the model loads without it.
//
// Weights are checked before they are used, not in the background. A start that maps them reads them all
// once, as the first token would. So damaged weights are never used, steps need not know of checks, and a
// matrix that fails is packed again without an error. A background check would outlast short runs.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/file_watch.h"
#include "base/hash.h"
#include "base/large_pages.h"
#include "base/pool.h"
#include "weft/dtype.h"

namespace weft::cpu {

/// The version of the packed panels' bytes and of the file. Raise it with every change of packed_layout.h or
/// packed.cpp that moves them. The panels are the same for all instruction sets.
inline constexpr std::uint32_t kPackedVersion = 6;

struct PackedCacheOptions {
  std::filesystem::path folder;     ///< Made where it is missing.
  std::uint64_t max_bytes = 0;      ///< Of the folder: files that were used least recently go first.
  double min_free_fraction = 0.05;  ///< The fraction of the disk that writing leaves free.
};

struct PackedModel {
  std::string name;           ///< For people: the file's name begins with it.
  base::Hash128 key;          ///< Tells models apart; samples of their weights will do.
  base::Hash128 identity;     ///< Of the model's files (base::OpenFile::identity). Zero: not known.
  std::uint64_t n_bytes = 0;  ///< About what the matrices take.
};

/// One model's file. Used while a model loads, by one thread at a time, with a pool to read and hash.
class PackedCache {
 public:
  PackedCache(const PackedCacheOptions& options, const PackedModel& model);
  ~PackedCache();

  /// Whether the file exists and has passed all checks so far. Otherwise matrices are added.
  bool found() const { return file_ != nullptr && !dropped_; }
  /// The panels of a matrix (or of several experts). Empty where the file has none of that name, type and
  /// shape, or a check fails. `source_hash` hashes the bytes that they were packed from; its exceptions pass
  /// through.
  std::span<const std::byte> find(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                                  std::size_t n_bytes, base::Pool& pool,
                                  const std::function<std::uint64_t()>& source_hash);
  /// Keeps the bytes that `find` returned alive, and checks that they are unchanged. Null where it returned
  /// nothing.
  std::shared_ptr<const base::FileWatch> file() const { return file_; }

  void add(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
           std::span<const std::byte> packed, std::uint64_t source_hash, base::Pool& pool);
  /// Call it after all matrices were found or added: writes the file, or starts moving a found one to large
  /// pages in the background.
  void commit();
  /// Blocks until mapped weights are on their final pages.
  void settle();

  struct Entry {
    base::Hash128 name;  ///< A hash of name, type and shape.
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t checksum = 0;     ///< Of the bytes.
    std::uint64_t source_hash = 0;  ///< Of the bytes that they were packed from.
  };
  struct Trailer {
    char magic[8] = {'W', 'E', 'F', 'T', 'P', 'A', 'C', 'K'};
    std::uint32_t version = kPackedVersion;
    std::uint32_t n_entries = 0;
    base::Hash128 key;
    base::Hash128 identity;  ///< Of the model's files.
    std::uint64_t table_offset = 0;
    std::uint64_t file_bytes = 0;
    std::uint64_t table_hash = 0;
    std::uint64_t hash = 0;  ///< Of everything before it.

    std::uint64_t own_hash() const;
  };

 private:
  void make_room();
  void write(std::span<const std::byte> bytes);
  void drop();
  void note_identity();

  PackedCacheOptions options_;
  PackedModel model_;
  std::filesystem::path path_;
  bool unchanged_ = false;  // According to the system, the model's files are unchanged since packing.
  bool dropped_ = false;
  std::shared_ptr<base::FileWatch> file_;
  std::unique_ptr<base::AtomicFile> writer_;
  std::uint64_t written_ = 0;
  Trailer trailer_;  // As it was checked.
  std::vector<Entry> entries_;
  base::LargePages pages_;
};

}  // namespace weft::cpu
