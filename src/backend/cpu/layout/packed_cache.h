#pragma once
// Packed weights on disk: what the first start of a model packed, the next ones map.
//
// A file of the folder holds the packed matrices of one model, under a name made of its key:
//
//   [matrices, each from a multiple of 4096 on] [table of entries] [trailer]
//
// The trailer comes last because a file is written from front to back; it appears whole or not at all
// (base/atomic_file.h). What is read may still be anything: sizes, ranges and the hashes of trailer and table
// are checked, and of each matrix samples, so that a start costs no reading of the whole file. A file that
// fails any of this counts as not there and is written again. Bytes that pass unseen give wrong numbers,
// never wrong addresses: kernels take no address from weights.
//
// The cache is only ever a saving: whatever goes wrong with it (no folder, no room, a write that fails), the
// model loads without.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/large_pages.h"
#include "base/mapped_file.h"
#include "tensor/dtype.h"

namespace weft::cpu {

/// Of the packed panels' bytes: to be raised with every change of packed_layout.h or packed.cpp that moves
/// them. The panels are the same for all instruction sets.
inline constexpr std::uint32_t kPackedVersion = 3;

struct PackedCacheOptions {
  std::filesystem::path folder;     ///< Made where it is missing.
  std::uint64_t max_bytes = 0;      ///< Of the folder: files that were used least recently go first.
  double min_free_fraction = 0.05;  ///< Of the disk, that writing leaves free.
};

/// One model's file. Used while a model loads, by one thread at a time; never throws.
class PackedCache {
 public:
  /// `key` tells models apart, with everything that the matrices follow from; `n_bytes` is what they take.
  PackedCache(const PackedCacheOptions& options, base::Hash128 key, std::uint64_t n_bytes);
  ~PackedCache();

  /// The file is there and sound; otherwise matrices are added.
  bool found() const { return file_ != nullptr; }
  /// A matrix's (or several experts') panels; empty where the file has none of that name, type and shape.
  std::span<const std::byte> find(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                                  std::size_t n_bytes) const;
  /// Keeps what `find` gave alive.
  std::shared_ptr<const void> file() const { return file_; }

  void add(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
           std::span<const std::byte> packed);
  /// All matrices were found or added: the file appears, or goes to large pages beside who uses it.
  void commit();
  /// Blocks until what is mapped lies on the pages where it stays.
  void settle();

  struct Entry {
    base::Hash128 name;  ///< Of name, type and shape.
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t samples = 0;  ///< Hash of samples of the bytes.
  };

 private:
  void make_room(std::uint64_t n_bytes);
  void write(std::span<const std::byte> bytes);

  PackedCacheOptions options_;
  base::Hash128 key_;
  std::filesystem::path path_;
  struct File {
    base::MappedFile mapped;
    base::LargePages pages;
  };
  std::shared_ptr<File> file_;
  std::unique_ptr<base::AtomicFile> writer_;
  std::uint64_t written_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace weft::cpu
