#pragma once
// Stored blocks: in host memory, and as files that a thread of its own reads and writes.
//
// One pool has the states that are in memory: kept ones, ones to be written, and ones read from files. It
// never exceeds its limit: the least recently used states are dropped before a new one is added. With files,
// a block is written as soon as it is added.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/tiers/block_files.h"
#include "engine/tiers/block_index.h"
#include "weft/cache_tiers.h"

namespace weft::engine {

/// A part of a prompt that a stored block can restore: its first n_common symbols.
struct StoredPiece {
  base::Hash128 own;
  int begin = 0;  ///< The first one's place in the prompt.
  int n_common = 0;
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
  /// Whether the folder was listed after that call.
  bool listed(std::uint64_t ticket) const;
  /// The chain of blocks that restores the longest prefix of a text. `max_cut` < 0: sequences can be cut
  /// anywhere. Otherwise blocks are whole sequences, which can be cut by at most `max_cut` symbols.
  std::vector<StoredPiece> find(const base::Hash128& root, std::span<const Symbol> text, int max_cut) const;
  /// Whether there is a block that begins with these symbols (`whole`: has no others), in memory or as a
  /// file. It then counts as used.
  bool covers(const base::Hash128& parent, std::span<const Symbol> symbols, bool whole);

  // --- States

  enum class Added : std::uint8_t {
    kYes,
    kLater,  ///< Too much is waiting to be written.
    kNever,  ///< It does not fit.
  };
  /// Whether a state of about `n_bytes` could be added now. Drops others for it.
  Added make_room(std::uint64_t n_bytes);
  /// Adds a block. Shorter blocks that it covers are dropped if `replaces`.
  Added add(const Block& block, const base::Hash128& own, std::vector<std::byte> state, bool replaces);

  struct Taken {
    enum class State : std::uint8_t { kReady, kComing, kGone } where = State::kGone;
    StateBytes state = nullptr;
    std::vector<Symbol> symbols = {};  ///< Of the block, for a last comparison.
    bool from_disk = false;
  };
  /// The state of a block. If only a file has it, it is read: kComing until then.
  Taken take(const base::Hash128& own);
  /// A block that cannot be restored: removes it with its file, and reports why.
  void drop_damaged(const base::Hash128& own, const std::string& why);

  /// Waits until the thread has finished something, at most this long.
  void wait(std::chrono::milliseconds at_most);
  /// Sizes and failures; the counts of tokens are the caller's.
  CacheTierStats stats() const;

 private:
  /// What the thread has to do with a block.
  enum class Task : std::uint8_t { kRead, kWrite, kRemove };
  struct Job {
    Task task = Task::kRead;
    base::Hash128 own;
  };

  using Notes = std::vector<std::pair<std::string, std::string>>;  // Kinds and texts.

  // With the lock:
  /// Drops states until there is room for one more. False if that is impossible.
  bool drop_until(std::uint64_t n_bytes);
  void keep(BlockEntry& entry, StateBytes state);
  void use(BlockEntry& entry);
  void release(BlockEntry& entry);
  void remove(const base::Hash128& own);
  void push(Task task, BlockEntry& entry);
  /// Counts a failure. The text to report: empty if there was one of this kind.
  std::string new_note(const std::string& kind, const std::string& text);
  // Without it:
  void tell(const std::string& text) const;

  // The thread, with the lock, which they release while they use files:
  void work();
  void do_listing(std::unique_lock<std::mutex>& lock, Notes& notes);
  void do_job(const Job& job, std::unique_lock<std::mutex>& lock, Notes& notes);

  const std::uint64_t ram_limit_;
  const std::uint64_t max_bytes_;  // Of states in memory.
  const std::function<void(const std::string&)> on_note_;
  std::optional<BlockFiles> files_;  // The thread's.

  mutable std::mutex mutex_;
  std::condition_variable work_;      // For the thread.
  std::condition_variable progress_;  // For the caller.
  BlockIndex index_;
  std::uint64_t n_bytes_ = 0;  // Of states in memory.
  std::uint64_t disk_bytes_ = 0;
  std::uint64_t clock_ = 0;
  std::map<std::uint64_t, base::Hash128> by_use_;  // Blocks in memory, by last_use.
  std::deque<Job> urgent_, jobs_;
  std::uint64_t asked_ = 0, listed_ = 0;  // Listings.
  int n_skipped_ = 0;                     // Writes left out after a failure.
  bool is_working_ = false;
  std::set<std::string> noted_;
  std::int64_t n_failures_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace weft::engine
