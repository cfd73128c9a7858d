#pragma once
// Packed weights on disk: what the first start of a model packed, the next ones map.
//
// A file of the folder holds the packed matrices of one model, under the model's name and a key:
//
//   [matrices, each from a multiple of 4096 on] [table of entries] [trailer]
//
// The trailer comes last because a file is written from front to back; it appears whole or not at all
// (base/atomic_file.h).
//
// What a start is given from it is what packing the model's files as they are now would give:
//
// - Each matrix is read and compared with its checksum before it is given out: by the threads that load, and
//   from the file, not through the mapping. That costs what one step costs that reads all weights, and the
//   first step then finds them in memory. From then on a FileWatch makes steps fail where another
//   process cut the file or wrote to it.
// - Each matrix has a hash of all the bytes that it was packed from. Where the model's files are the same,
//   and unchanged since by what the system says of them (base/open_file.h: changing bytes and setting back
//   the time is seen), nothing of them is read. Where they are not, or that is not known, they are read and
//   their hashes compared; a model that was copied, touched or loaded anew is mapped then, and the next
//   start knows its files.
// - A file that fails in any of this goes: the matrix that does not fit is packed, the others are checked one
//   by one, and the next start writes another.
//
// The cache is only ever a saving: whatever goes wrong with it (no folder, no room, a write that fails), the
// model loads without.
//
// Kept weights are checked before they are used, not beside it. A start that maps them reads them all once,
// as the first token would have: then nothing is computed of damaged weights, no step has to know of checks,
// and what fails is packed anew without an error. A check in the background would end after short runs have.
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

/// Of the packed panels' bytes, and of the file: to be raised with every change of packed_layout.h or
/// packed.cpp that moves them. The panels are the same for all instruction sets.
inline constexpr std::uint32_t kPackedVersion = 6;

struct PackedCacheOptions {
  std::filesystem::path folder;     ///< Made where it is missing.
  std::uint64_t max_bytes = 0;      ///< Of the folder: files that were used least recently go first.
  double min_free_fraction = 0.05;  ///< Of the disk, that writing leaves free.
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

  /// The file is there, and nothing wrong with it was found; otherwise matrices are added.
  bool found() const { return file_ != nullptr && !dropped_; }
  /// A matrix's (or several experts') panels; empty where the file has none of that name, type and shape, or
  /// they are not what they should be. `source_hash` reads the bytes that they were packed from; what it
  /// throws passes.
  std::span<const std::byte> find(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                                  std::size_t n_bytes, base::Pool& pool,
                                  const std::function<std::uint64_t()>& source_hash);
  /// Keeps what `find` gave alive, and says whether it is still what it was. Null where it gave nothing.
  std::shared_ptr<const base::FileWatch> file() const { return file_; }

  void add(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
           std::span<const std::byte> packed, std::uint64_t source_hash, base::Pool& pool);
  /// All matrices were found or added: the file appears, or goes to large pages beside who uses it.
  void commit();
  /// Blocks until what is mapped lies on the pages where it stays.
  void settle();

  struct Entry {
    base::Hash128 name;  ///< Of name, type and shape.
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t checksum = 0;     ///< Of the bytes.
    std::uint64_t source_hash = 0;  ///< Of what they were packed from.
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
  bool unchanged_ = false;  // The model's files are those that were packed, as far as the system knows.
  bool dropped_ = false;
  std::shared_ptr<base::FileWatch> file_;
  std::unique_ptr<base::AtomicFile> writer_;
  std::uint64_t written_ = 0;
  Trailer trailer_;  // As it was checked.
  std::vector<Entry> entries_;
  base::LargePages pages_;
};

}  // namespace weft::cpu
