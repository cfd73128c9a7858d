#pragma once
// Cache tiers: prefixes that the KV cache evicts are kept in host memory and in files
// (BatcherParams::tiers). Later prompts with these prefixes restore them instead of computing them, with the
// same bits.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#pragma GCC visibility push(default)

namespace weft {

/// The two tiers below the KV cache. Encoder-decoder models use none.
struct CacheTiers {
  /// For ram_bytes: a quarter of the memory that is free when the batcher is made, at most 8 GiB.
  static constexpr std::int64_t kAutomatic = -1;
  /// The most bytes of host memory for evicted prefixes. 0: none. Taken as prefixes are evicted. With `disk`,
  /// at least 256 MiB may hold states on their way to and from files.
  std::int64_t ram_bytes = 0;
  /// A folder for files of prefixes, which survive the process. Made (mode 0700) if it is missing; its files
  /// have the mode 0600. Several processes and models can share it. Empty: no files. With a folder, finished
  /// sequences are copied to it in the background, evicted or not, and when the batcher is destroyed.
  std::filesystem::path disk = {};
  /// The most bytes of all files in `disk`; the least recently used are removed first.
  std::int64_t disk_bytes = std::int64_t{32} << 30;
  /// Receives notes: a damaged file, a full disk. Each kind is reported once. Called by a thread of the
  /// batcher; must not throw or use the batcher. Null: notes are dropped.
  std::function<void(const std::string& note)> on_note = nullptr;
};

/// Counts since the batcher was made, and current sizes.
struct CacheTierStats {
  std::int64_t n_stored_tokens = 0;  ///< Tokens copied out of the KV cache.
  std::int64_t n_ram_tokens = 0;     ///< Tokens restored from host memory.
  std::int64_t n_disk_tokens = 0;    ///< Tokens restored from files.
  std::int64_t n_failures = 0;       ///< Files that could not be written or read, or were damaged.
  std::int64_t ram_bytes = 0;        ///< Host memory in use now.
  std::int64_t ram_limit = 0;        ///< CacheTiers::ram_bytes, with kAutomatic replaced.
  std::int64_t disk_bytes = 0;       ///< Bytes of all files in the folder, as last counted.
};

}  // namespace weft

#pragma GCC visibility pop
