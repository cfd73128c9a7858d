#include "engine/tiers/block_store.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/memory.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

/// States in memory that files need: waiting to be written, or just read.
constexpr std::uint64_t kStagingBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kMostAutomatic = std::uint64_t{8} << 30;
/// Blocks that are not written after a failure, before the next attempt.
constexpr int kSkippedWrites = 16;

std::uint64_t ram_limit_of(const CacheTiers& tiers) {
  if (tiers.ram_bytes != CacheTiers::kAutomatic) return static_cast<std::uint64_t>(tiers.ram_bytes);
  return std::min<std::uint64_t>(base::machine_memory().available / 4, kMostAutomatic);
}

}  // namespace

BlockStore::BlockStore(const CacheTiers& tiers, const base::Hash128& owner, std::uint64_t max_state)
    : ram_limit_(ram_limit_of(tiers)),
      max_bytes_(tiers.disk.empty() ? ram_limit_ : std::max(ram_limit_, kStagingBytes)),
      on_note_(tiers.on_note) {
  if (tiers.disk.empty()) return;
  files_.emplace(tiers.disk, static_cast<std::uint64_t>(tiers.disk_bytes), owner, max_state);
  asked_ = 1;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kOutOfMemory,
                std::string("the thread of the cache's files cannot be started: ") + error.what());
  }
}

BlockStore::~BlockStore() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_one();
  thread_.join();
}

// --- Look-ups

std::uint64_t BlockStore::ask_for_listing() {
  if (!files_) return 0;
  {
    const std::lock_guard lock(mutex_);
    ++asked_;
  }
  work_.notify_one();
  return asked_;
}

bool BlockStore::listed(std::uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  return listed_ >= ticket;
}

std::vector<StoredPiece> BlockStore::find(const base::Hash128& root, std::span<const Symbol> text,
                                          int max_cut) const {
  const std::lock_guard lock(mutex_);
  std::vector<StoredPiece> pieces;
  if (max_cut >= 0) {
    if (const auto found = index_.find_whole(root, text, max_cut))
      pieces.push_back({found->own, 0, found->n_common});
    return pieces;
  }
  base::Hash128 parent = root;
  int begin = 0;
  while (begin < std::ssize(text)) {
    const auto found = index_.find(parent, text.subspan(to_size(begin)));
    if (!found) break;
    pieces.push_back({found->own, begin, found->n_common});
    if (found->n_common < kBlockTokens) break;
    begin += kBlockTokens;
    parent = found->own;
  }
  return pieces;
}

bool BlockStore::covers(const base::Hash128& parent, std::span<const Symbol> symbols, bool whole) {
  const std::lock_guard lock(mutex_);
  base::Hash128 own;
  if (whole) {
    own = block_hash(parent, symbols);
  } else {
    const auto found = index_.find(parent, symbols);
    if (!found || found->n_common < std::ssize(symbols)) return false;
    own = found->own;
  }
  BlockEntry* const entry = index_.entry(own);
  if (entry == nullptr) return false;
  if (entry->state != nullptr) use(*entry);
  return true;
}

// --- States

void BlockStore::use(BlockEntry& entry) {
  by_use_.erase(entry.last_use);
  entry.last_use = ++clock_;
  by_use_.emplace(entry.last_use, entry.own);
}

void BlockStore::keep(BlockEntry& entry, StateBytes state) {
  n_bytes_ += state->size();
  entry.n_bytes = state->size();
  entry.state = std::move(state);
  use(entry);
}

void BlockStore::release(BlockEntry& entry) {
  if (entry.state == nullptr) return;
  n_bytes_ -= entry.state->size();
  entry.state = nullptr;
  by_use_.erase(entry.last_use);
}

bool BlockStore::drop_until(std::uint64_t n_bytes) {
  for (auto at = by_use_.begin(); n_bytes_ + n_bytes > max_bytes_ && at != by_use_.end();) {
    BlockEntry& entry = *index_.entry(at->second);
    ++at;
    if (entry.is_queued) continue;
    release(entry);
    if (!entry.on_disk) index_.erase(base::Hash128(entry.own));
  }
  return n_bytes_ + n_bytes <= max_bytes_;
}

BlockStore::Added BlockStore::make_room(std::uint64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  if (n_bytes > max_bytes_) return Added::kNever;
  return drop_until(n_bytes) ? Added::kYes : Added::kLater;
}

BlockStore::Added BlockStore::add(const Block& block, const base::Hash128& own, std::vector<std::byte> bytes,
                                  bool replaces) {
  {
    const std::lock_guard lock(mutex_);
    if (bytes.size() > max_bytes_) return Added::kNever;
    if (!drop_until(bytes.size())) return Added::kLater;
    if (replaces)
      for (const base::Hash128& shorter : index_.prefixes(block.parent, block.symbols)) remove(shorter);
    BlockEntry& entry = index_.add(block, own);
    if (entry.state != nullptr) return Added::kYes;
    keep(entry, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
    if (files_ && !entry.on_disk) push(Task::kWrite, entry);
  }
  work_.notify_one();
  return Added::kYes;
}

BlockStore::Taken BlockStore::take(const base::Hash128& own) {
  {
    const std::lock_guard lock(mutex_);
    BlockEntry* const entry = index_.entry(own);
    if (entry == nullptr) return {};
    if (entry->state != nullptr) {
      use(*entry);
      return {Taken::State::kReady, entry->state, index_.block(own)->symbols, entry->from_disk};
    }
    if (!entry->on_disk || !files_) return {};
    if (entry->is_queued) return {.where = Taken::State::kComing};
    push(Task::kRead, *entry);
  }
  work_.notify_one();
  return {.where = Taken::State::kComing};
}

void BlockStore::remove(const base::Hash128& own) {
  BlockEntry* const entry = index_.entry(own);
  if (entry == nullptr) return;
  const base::Hash128 name = entry->own;
  if (files_ && (entry->on_disk || entry->is_queued)) jobs_.push_back({Task::kRemove, name});
  release(*entry);
  index_.erase(name);
}

void BlockStore::drop_damaged(const base::Hash128& own, const std::string& why) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    remove(own);
    text = new_note("damaged", why);
  }
  work_.notify_one();
  tell(text);
}

void BlockStore::wait(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  if (urgent_.empty() && jobs_.empty() && listed_ >= asked_ && !is_working_) return;
  progress_.wait_for(lock, at_most);
}

CacheTierStats BlockStore::stats() const {
  const std::lock_guard lock(mutex_);
  CacheTierStats stats;
  stats.n_failures = n_failures_;
  stats.ram_bytes = static_cast<std::int64_t>(n_bytes_);
  stats.ram_limit = static_cast<std::int64_t>(ram_limit_);
  stats.disk_bytes = static_cast<std::int64_t>(disk_bytes_);
  return stats;
}

void BlockStore::push(Task task, BlockEntry& entry) {
  entry.is_queued = true;
  (task == Task::kRead ? urgent_ : jobs_).push_back({task, entry.own});
}

std::string BlockStore::new_note(const std::string& kind, const std::string& text) {
  ++n_failures_;
  return noted_.insert(kind).second ? "cache tiers: " + text : std::string();
}

void BlockStore::tell(const std::string& text) const {
  if (!text.empty() && on_note_) on_note_(text);
}

// --- The thread

void BlockStore::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return ending_ || listed_ < asked_ || !urgent_.empty() || !jobs_.empty(); });
    is_working_ = true;
    Notes notes;
    try {
      if (listed_ < asked_ && !ending_) {
        do_listing(lock, notes);
      } else if (!urgent_.empty() || !jobs_.empty()) {
        std::deque<Job>& jobs = urgent_.empty() ? jobs_ : urgent_;
        const Job job = jobs.front();
        jobs.pop_front();
        do_job(job, lock, notes);
      } else if (ending_) {
        return;
      }
    } catch (const std::exception& error) {  // Memory.
      if (!lock.owns_lock()) lock.lock();
      notes.emplace_back("memory", error.what());
    }
    if (files_) disk_bytes_ = files_->n_bytes();
    is_working_ = false;
    std::vector<std::string> texts;
    for (const auto& [kind, text] : notes) texts.push_back(new_note(kind, text));
    if (!texts.empty()) {
      lock.unlock();
      for (const std::string& text : texts) tell(text);
      lock.lock();
    }
    progress_.notify_all();
  }
}

void BlockStore::do_listing(std::unique_lock<std::mutex>& lock, Notes& notes) {
  const std::uint64_t ticket = asked_;
  lock.unlock();
  BlockFiles::Listing listing;
  try {
    listing = files_->list();
  } catch (const Error& error) {
    notes.emplace_back("folder", error.what());
  }
  lock.lock();
  for (const BlockFiles::Listed& file : listing.added) {
    BlockEntry& entry = index_.add(file.block, file.own);
    entry.on_disk = true;
    if (entry.state == nullptr) entry.n_bytes = file.n_bytes;
  }
  for (const base::Hash128& own : listing.removed) {
    BlockEntry* const entry = index_.entry(own);
    if (entry == nullptr || entry->is_queued) continue;
    entry->on_disk = false;
    if (entry->state == nullptr) index_.erase(own);
  }
  for (const std::string& what : listing.damaged) notes.emplace_back("damaged", what);
  listed_ = std::max(listed_, ticket);
}

void BlockStore::do_job(const Job& job, std::unique_lock<std::mutex>& lock, Notes& notes) {
  if (job.task == Task::kRemove) {
    lock.unlock();
    files_->remove(job.own);
    lock.lock();
    return;
  }
  BlockEntry* entry = index_.entry(job.own);
  if (entry == nullptr) return;
  const Block block = *index_.block(job.own);
  const StateBytes state = entry->state;
  std::vector<std::byte> read;
  bool is_done = false;
  if (job.task == Task::kWrite && state != nullptr && n_skipped_ > 0) {
    --n_skipped_;
  } else {
    lock.unlock();
    try {
      if (job.task == Task::kRead) {
        read = files_->read(block, job.own);
        is_done = !read.empty();
      } else if (state != nullptr) {
        const BlockFiles::Written written = files_->write(block, job.own, *state);
        is_done = written == BlockFiles::Written::kYes;
        if (!is_done)
          notes.emplace_back("full",
                             written == BlockFiles::Written::kTooLarge
                                 ? "a prefix is larger than the limit of the folder; it is not written"
                                 : "the disk is nearly full; prefixes are not written to it");
      }
    } catch (const Error& error) {
      notes.emplace_back(error.code() == ErrorCode::kInvalidFile ? "damaged" : "file", error.what());
    }
    lock.lock();
    if (job.task == Task::kWrite && !is_done) n_skipped_ = kSkippedWrites;
  }
  entry = index_.entry(job.own);
  if (entry == nullptr) return;
  entry->is_queued = false;
  if (job.task == Task::kWrite) {
    entry->on_disk = is_done;
    if (n_bytes_ > ram_limit_ && is_done && ram_limit_ == 0) release(*entry);
  } else if (is_done && drop_until(read.size())) {
    keep(*entry, std::make_shared<const std::vector<std::byte>>(std::move(read)));
    entry->from_disk = true;
  } else if (!is_done) {
    entry->on_disk = false;
  }
  if (entry->state == nullptr && !entry->on_disk) index_.erase(base::Hash128(entry->own));
}

}  // namespace weft::engine
