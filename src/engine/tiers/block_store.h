#pragma once
// Stored blocks: in host memory, and as files that a thread of its own reads and writes.
//
// One pool has the states that are in memory: kept ones, ones to be written, and ones read from files. It
// never exceeds its limit: the least recently used states are dropped before a new one is added. The limit is
// CacheTiers::ram_bytes, or kStagingBytes if that is more and there are files. With files, a block is written
// as soon as it is added, and written states are dropped down to ram_bytes.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/tiers/block_files.h"
#include "engine/tiers/block_index.h"
#include "weft/cache_tiers.h"

namespace weft::engine {

/// States in memory on their way to files, or just read.
inline constexpr std::uint64_t kStagingBytes = std::uint64_t{256} << 20;

/// A part of a prompt that a stored block can restore: its first n_common symbols.
struct StoredPiece {
  base::Hash128 own;
  int begin = 0;  ///< The first one's place in the prompt.
  int n_common = 0;

  int depth() const { return begin / kBlockTokens; }
};

/// Reports each kind of failure once, and counts all.
class FailureNotes {
 public:
  explicit FailureNotes(std::function<void(const std::string&)> on_note) : on_note_(std::move(on_note)) {}
  /// Counts a failure. Returns the note for tell(), which is empty if this kind was reported. With the
  /// owner's lock.
  std::string add(const std::string& kind, const std::string& text);
  /// Without the lock.
  void tell(const std::string& text) const;
  std::int64_t n_failures() const { return n_failures_; }

 private:
  const std::function<void(const std::string&)> on_note_;
  std::set<std::string> known_;
  std::int64_t n_failures_ = 0;
};

/// Used by one thread, apart from its own. All its calls but wait() and the destructor return at once: they
/// use no file.
class BlockStore {
 public:
  /// `owner` and `max_state`: see BlockFiles. Throws Error kOutOfMemory if no thread can be made.
  BlockStore(const CacheTiers& tiers, const base::Hash128& owner, std::uint64_t max_state);
  /// Writes the files of all blocks that were added.
  ~BlockStore();
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;

  bool has_files() const { return files_.has_value(); }

  // --- Look-ups

  /// Asks for the folder to be listed, as other processes may have added files. The result is for listed().
  std::uint64_t ask_for_listing();
  /// Whether the folder was listed after that call. The constructor makes the first call, with the result 1.
  bool listed(std::uint64_t ticket) const;
  /// The chain of blocks that restores the longest prefix of a text. `max_cut` < 0: sequences can be cut
  /// anywhere. Otherwise blocks are whole sequences, which can be cut by at most `max_cut` symbols.
  std::vector<StoredPiece> find(const base::Hash128& root, std::span<const Symbol> text, int max_cut) const;
  /// A walk along a chain begins (BlockUse).
  void begin_visit();
  /// Whether there is a block that begins with these symbols (`whole`: has no others), in memory or as a
  /// file. It then counts as used in this visit; `depth` blocks are before it.
  bool covers(const base::Hash128& parent, std::span<const Symbol> symbols, bool whole, int depth);

  // --- States

  enum class Added : std::uint8_t {
    kYes,
    kLater,  ///< The thread has to finish something first.
    kNever,  ///< It does not fit in addition to the states that this visit has used.
  };
  /// Whether a state of about `n_bytes` could be added now. Drops others for it.
  Added make_room(std::uint64_t n_bytes);
  /// Adds a block with `depth` blocks before it. Shorter blocks that it covers are dropped if `replaces`.
  Added add(const Block& block, const base::Hash128& own, std::vector<std::byte> state, bool replaces,
            int depth);

  struct Taken {
    enum class State : std::uint8_t { kReady, kComing, kGone } where = State::kGone;
    StateBytes state = nullptr;
    std::vector<Symbol> symbols = {};  ///< Of the block, for a last comparison.
    bool from_disk = false;
  };
  /// The state of a piece's block. If only a file has it, it is read: kComing until then. kGone: also if
  /// memory has no room for it.
  Taken take(const StoredPiece& piece);
  /// Forgets a block that cannot be restored, and reports why. `is_damaged`: its file is removed.
  void drop(const base::Hash128& own, const std::string& why, bool is_damaged);

  /// Waits until the thread has finished something, at most this long.
  void wait(std::chrono::milliseconds at_most);
  /// Sizes and failures; the counts of tokens are the caller's.
  CacheTierStats stats() const;

 private:
  using File = BlockEntry::File;
  /// What the thread has to do with a block.
  struct Job {
    enum class Task : std::uint8_t { kRead, kWrite, kTouch, kRemove } task = Task::kRead;
    base::Hash128 own;
    int depth = 0;
  };
  /// What has been done.
  struct Result {
    bool is_done = false;
    StateBytes state = nullptr;        ///< Of kRead.
    std::string kind = {}, note = {};  ///< A failure.
  };
  struct Work {
    std::deque<Job> urgent = {}, jobs = {};
    std::uint64_t asked = 0, listed = 0;  ///< Listings.
    bool is_working = false;
    bool ending = false;

    bool is_idle() const { return urgent.empty() && jobs.empty() && listed >= asked && !is_working; }
  };

  // With the lock:
  /// Drops states until there is room for one more. False if that is impossible now.
  bool drop_until(std::uint64_t n_bytes);
  /// Drops states down to the user's limit. States stay that are to be written, or were just read.
  void trim();
  void keep(BlockEntry& entry, StateBytes state, int depth);
  void use(BlockEntry& entry, int depth);
  /// Marks a block's file as used. Writes a state without a file, for example after a full disk.
  void touch(BlockEntry& entry, int depth);
  void release(BlockEntry& entry);
  void remove(const base::Hash128& own, bool with_file);
  /// Erases a block that has neither a state nor a file.
  void erase_if_empty(const base::Hash128& own);

  // The thread; with the lock, which they release while they use files:
  void work();
  void list_folder(std::unique_lock<std::mutex>& lock);
  void do_job(const Job& job, std::unique_lock<std::mutex>& lock);
  /// Without the lock. Throws Error and std::bad_alloc.
  void use_file(const Job& job, const Block& block, const StateBytes& state, Result& result);
  void finish(const Job& job, const StateBytes& state, Result& result);
  void report(std::unique_lock<std::mutex>& lock, const std::string& kind, const std::string& text);

  const std::uint64_t ram_limit_;
  const std::uint64_t max_bytes_;    // Of states in memory.
  std::optional<BlockFiles> files_;  // The thread's.

  mutable std::mutex mutex_;
  std::condition_variable work_ready_;  // For the thread.
  std::condition_variable progress_;    // For the caller.
  BlockIndex index_;
  std::set<BlockUse> uses_;    // Of blocks in memory.
  std::uint64_t n_bytes_ = 0;  // In memory or reserved.
  std::uint64_t visit_ = 0;
  Work work_;
  std::uint64_t disk_bytes_ = 0;
  FailureNotes notes_;
  std::thread thread_;
};

}  // namespace weft::engine
