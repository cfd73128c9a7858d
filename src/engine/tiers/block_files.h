#pragma once
// Blocks as files of a folder (CacheTiers::disk).
//
// A file is OWNER-BLOCK.weftkv, with the hashes of its owner and its block. The owner is a hash of all that
// the bits of states depend on (prefix_tiers.cpp). So a folder can have blocks of several models, and files
// of other versions are never opened. All files count towards the limit. A use sets the
// time of a file's last change, and the oldest file is removed first. If a chain is used, deeper blocks get a
// slightly earlier time.
//
//   Header, symbols, the saved state (states/format.h, which has its own checksums)
//
// Files appear whole or not at all (base/atomic_file.h). Other processes may add, read and remove files at
// any time: a file that is gone is not found, never an error. What its own header contradicts is removed.
// States that are too large for this context are left to others.
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/folder.h"
#include "engine/tiers/block.h"

namespace weft::engine {

/// Used by one thread.
class BlockFiles {
 public:
  /// `max_bytes`: of the folder. `max_state`: of a state that this context can restore.
  BlockFiles(std::filesystem::path folder, std::uint64_t max_bytes, const base::Hash128& owner,
             std::uint64_t max_state);

  struct Listed {
    base::Hash128 own;
    Block block;
    std::uint64_t n_bytes = 0;  ///< Of its state.
  };
  struct Listing {
    std::vector<Listed> added;
    std::vector<base::Hash128> removed;
    std::vector<std::string> failures;  ///< Damaged files, which were removed, and unreadable ones.
  };
  /// What changed in the folder since the last call. Makes the folder the first time. Throws Error kIo if it
  /// cannot be made or listed.
  Listing list();

  enum class Written : std::uint8_t {
    kYes,
    kTooLarge,  ///< The folder's limit is smaller.
    kNoSpace,   ///< The disk is nearly full.
  };
  /// Writes the file of a block, with `depth` blocks before it in its chain. Others of any owner are removed
  /// for it. Throws Error kIo.
  Written write(const Block& block, const base::Hash128& own, std::span<const std::byte> state, int depth);
  /// The state of a block. Empty if there is no such file. Throws Error kIo, and kInvalidFile for a damaged
  /// file, which is removed.
  std::vector<std::byte> read(const Block& block, const base::Hash128& own);
  /// Marks its file as used.
  void touch(const base::Hash128& own, int depth);
  void remove(const base::Hash128& own);
  /// The path of its file. Any thread.
  std::filesystem::path path_of(const base::Hash128& own) const;

  std::uint64_t n_bytes() const { return n_bytes_; }  ///< Of the folder, as last counted.

 private:
  /// All files of this format, of any owner, the least recently used first. Updates n_bytes_.
  std::vector<base::CachedFile> all_files();
  Written make_room(std::uint64_t n_bytes);
  void drop(const std::filesystem::path& path) noexcept;

  const std::filesystem::path folder_;
  const std::uint64_t max_bytes_;
  const base::Hash128 owner_;
  const std::uint64_t max_state_;
  std::uint64_t n_bytes_ = 0;
  std::map<std::string, std::uint64_t> known_;                // Names and sizes, as last listed.
  std::optional<std::filesystem::file_time_type> listed_at_;  // The folder's time at the last listing.
};

}  // namespace weft::engine
