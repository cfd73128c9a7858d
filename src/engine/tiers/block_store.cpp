#include "engine/tiers/block_store.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/memory.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

constexpr std::uint64_t kMostAutomatic = std::uint64_t{8} << 30;

std::uint64_t ram_limit_of(const CacheTiers& tiers) {
  if (tiers.ram_bytes != CacheTiers::kAutomatic) return static_cast<std::uint64_t>(tiers.ram_bytes);
  return std::min<std::uint64_t>(base::machine_memory().available / 4, kMostAutomatic);
}

}  // namespace

std::string FailureNotes::add(const std::string& kind, const std::string& text) {
  ++n_failures_;
  return known_.insert(kind).second ? "cache tiers: " + text : std::string();
}

void FailureNotes::tell(const std::string& text) const {
  if (!text.empty() && on_note_) on_note_(text);
}

BlockStore::BlockStore(const CacheTiers& tiers, const base::Hash128& owner, std::uint64_t max_state)
    : ram_limit_(ram_limit_of(tiers)),
      max_bytes_(tiers.disk.empty() ? ram_limit_ : std::max(ram_limit_, kStagingBytes)),
      notes_(tiers.on_note) {
  if (tiers.disk.empty()) return;
  files_.emplace(tiers.disk, static_cast<std::uint64_t>(tiers.disk_bytes), owner, max_state);
  work_.asked = 1;
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
    for (const BlockUse& use : uses_)
      if (BlockEntry& entry = *index_.entry(use.own); entry.file == File::kNone)
        touch(entry, -use.minus_depth);
    work_.ending = true;
  }
  work_ready_.notify_one();
  thread_.join();
}

// --- Look-ups

std::uint64_t BlockStore::ask_for_listing() {
  if (!files_) return 0;
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = ++work_.asked;
  }
  work_ready_.notify_one();
  return ticket;
}

bool BlockStore::listed(std::uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  return !files_ || work_.listed >= ticket;
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

void BlockStore::begin_visit() {
  const std::lock_guard lock(mutex_);
  ++visit_;
}

bool BlockStore::covers(const base::Hash128& parent, std::span<const Symbol> symbols, bool whole, int depth) {
  {
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
    if (entry->state != nullptr) use(*entry, depth);
    touch(*entry, depth);
  }
  work_ready_.notify_one();
  return true;
}

// --- States

void BlockStore::use(BlockEntry& entry, int depth) {
  const BlockUse now{visit_, -depth, entry.own};
  if (auto node = uses_.extract(entry.last_use); !node.empty()) {
    node.value() = now;
    uses_.insert(std::move(node));
  } else {
    uses_.insert(now);
  }
  entry.last_use = now;
}

void BlockStore::touch(BlockEntry& entry, int depth) {
  if (files_ && entry.file == File::kNone && entry.state != nullptr) {
    work_.jobs.push_back({Job::Task::kWrite, entry.own, depth});
    entry.file = File::kWriting;
  } else if (entry.file == File::kWritten && !entry.is_touching) {
    work_.jobs.push_back({Job::Task::kTouch, entry.own, depth});
    entry.is_touching = true;
  }
}

void BlockStore::keep(BlockEntry& entry, StateBytes state, int depth) {
  use(entry, depth);
  entry.n_bytes = state->size();
  entry.state = std::move(state);
  n_bytes_ += entry.n_bytes;
}

void BlockStore::release(BlockEntry& entry) {
  if (entry.state == nullptr) return;
  n_bytes_ -= entry.state->size();
  entry.state = nullptr;
  uses_.erase(entry.last_use);
}

void BlockStore::erase_if_empty(const base::Hash128& own) {
  const BlockEntry* const entry = index_.entry(own);
  if (entry != nullptr && entry->state == nullptr && entry->file == File::kNone)
    index_.erase(base::Hash128(own));
}

bool BlockStore::drop_until(std::uint64_t n_bytes) {
  if (n_bytes > max_bytes_) return false;
  for (auto at = uses_.begin(); n_bytes_ + n_bytes > max_bytes_ && at != uses_.end();) {
    BlockEntry& entry = *index_.entry(at->own);
    const bool is_needed = at->visit == visit_ && entry.file == File::kNone;
    ++at;
    if (is_needed || entry.is_queued()) continue;
    release(entry);
    erase_if_empty(entry.own);
  }
  return n_bytes_ + n_bytes <= max_bytes_;
}

void BlockStore::trim() {
  for (auto at = uses_.begin(); n_bytes_ > ram_limit_ && at != uses_.end();) {
    BlockEntry& entry = *index_.entry(at->own);
    ++at;
    if (entry.is_queued() || entry.from_disk) continue;
    release(entry);
    erase_if_empty(entry.own);
  }
}

BlockStore::Added BlockStore::make_room(std::uint64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  if (drop_until(n_bytes)) return Added::kYes;
  return n_bytes <= max_bytes_ && !work_.is_idle() ? Added::kLater : Added::kNever;
}

BlockStore::Added BlockStore::add(const Block& block, const base::Hash128& own, std::vector<std::byte> bytes,
                                  bool replaces, int depth) {
  if (const Added room = make_room(bytes.size()); room != Added::kYes) return room;
  StateBytes state = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  {
    const std::lock_guard lock(mutex_);
    if (replaces)
      for (const base::Hash128& shorter : index_.prefixes(block.parent, block.symbols)) remove(shorter, true);
    if (files_) work_.jobs.push_back({Job::Task::kWrite, own, depth});
    BlockEntry& entry = index_.add(block, own);
    if (entry.state != nullptr || entry.file != File::kNone) return Added::kYes;
    keep(entry, std::move(state), depth);
    if (files_) entry.file = File::kWriting;
  }
  work_ready_.notify_one();
  return Added::kYes;
}

BlockStore::Taken BlockStore::take(const StoredPiece& piece) {
  {
    const std::lock_guard lock(mutex_);
    BlockEntry* const entry = index_.entry(piece.own);
    if (entry == nullptr) return {};
    if (entry->state != nullptr) {
      Taken taken{Taken::State::kReady, entry->state, index_.block(piece.own)->symbols, entry->from_disk};
      use(*entry, piece.depth());
      touch(*entry, piece.depth());
      return taken;
    }
    if (entry->file == File::kReading) return {.where = Taken::State::kComing};
    if (entry->file != File::kWritten || entry->n_bytes > max_bytes_) return {};
    if (!drop_until(entry->n_bytes))
      return {.where = work_.is_idle() ? Taken::State::kGone : Taken::State::kComing};
    work_.urgent.push_back({Job::Task::kRead, piece.own, piece.depth()});
    entry->file = File::kReading;
    n_bytes_ += entry->n_bytes;
  }
  work_ready_.notify_one();
  return {.where = Taken::State::kComing};
}

void BlockStore::remove(const base::Hash128& own, bool with_file) {
  BlockEntry* const entry = index_.entry(own);
  if (entry == nullptr) return;
  const base::Hash128 name = entry->own;
  if (with_file && entry->file != File::kNone) work_.jobs.push_back({Job::Task::kRemove, name});
  if (entry->file == File::kReading) n_bytes_ -= entry->n_bytes;
  release(*entry);
  index_.erase(name);
}

void BlockStore::drop(const base::Hash128& own, const std::string& why, bool is_damaged) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    const BlockEntry* const entry = index_.entry(own);
    const bool has_file = files_ && entry != nullptr && entry->file != BlockEntry::File::kNone;
    const std::string file = has_file ? files_->path_of(entry->own).string() + ": " : std::string();
    remove(own, is_damaged);
    text = notes_.add(is_damaged ? "damaged" : "unusable", file + why);
  }
  work_ready_.notify_one();
  notes_.tell(text);
}

void BlockStore::wait(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  if (!work_.is_idle()) progress_.wait_for(lock, at_most);
}

CacheTierStats BlockStore::stats() const {
  const std::lock_guard lock(mutex_);
  CacheTierStats stats;
  stats.n_failures = notes_.n_failures();
  stats.ram_bytes = static_cast<std::int64_t>(n_bytes_);
  stats.ram_limit = static_cast<std::int64_t>(ram_limit_);
  stats.disk_bytes = static_cast<std::int64_t>(disk_bytes_);
  return stats;
}

// --- The thread

void BlockStore::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_ready_.wait(lock, [&] {
      return work_.ending || work_.listed < work_.asked || !work_.urgent.empty() || !work_.jobs.empty();
    });
    work_.is_working = true;
    try {
      if (work_.listed < work_.asked && !work_.ending) {
        list_folder(lock);
      } else if (!work_.urgent.empty() || !work_.jobs.empty()) {
        std::deque<Job>& jobs = work_.urgent.empty() ? work_.jobs : work_.urgent;
        const Job job = jobs.front();
        jobs.pop_front();
        do_job(job, lock);
      } else {
        return;
      }
    } catch (const std::exception&) {  // No memory for a report.
      if (!lock.owns_lock()) lock.lock();
    }
    disk_bytes_ = files_->n_bytes();
    work_.is_working = false;
    progress_.notify_all();
  }
}

void BlockStore::report(std::unique_lock<std::mutex>& lock, const std::string& kind,
                        const std::string& text) {
  const std::string news = notes_.add(kind, text);
  lock.unlock();
  notes_.tell(news);
  lock.lock();
}

void BlockStore::list_folder(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t ticket = work_.asked;
  lock.unlock();
  BlockFiles::Listing listing;
  std::exception_ptr failure;
  try {
    listing = files_->list();
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  work_.listed = std::max(work_.listed, ticket);
  for (const BlockFiles::Listed& file : listing.added) {
    BlockEntry& entry = index_.add(file.block, file.own);
    if (entry.file != File::kNone) continue;
    entry.file = File::kWritten;
    entry.n_bytes = file.n_bytes;
  }
  for (const base::Hash128& own : listing.removed) {
    BlockEntry* const entry = index_.entry(own);
    if (entry == nullptr || entry->is_queued()) continue;
    entry->file = File::kNone;
    erase_if_empty(own);
  }
  for (const std::string& what : listing.failures) report(lock, "damaged", what);
  if (failure == nullptr) return;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    report(lock, "folder", error.what());
  }
}

void BlockStore::use_file(const Job& job, const Block& block, const StateBytes& state, Result& result) {
  switch (job.task) {
    case Job::Task::kRead:
      result.state = std::make_shared<const std::vector<std::byte>>(files_->read(block, job.own));
      result.is_done = !result.state->empty();
      break;
    case Job::Task::kWrite:
      switch (files_->write(block, job.own, *state, job.depth)) {
        case BlockFiles::Written::kYes:
          result.is_done = true;
          break;
        case BlockFiles::Written::kTooLarge:
          result.kind = "full";
          result.note = "a prefix is larger than the limit of the folder; it is not written";
          break;
        case BlockFiles::Written::kNoSpace:
          result.kind = "full";
          result.note = "the disk is nearly full; prefixes are not written to it";
          break;
      }
      break;
    case Job::Task::kTouch:
      files_->touch(job.own, job.depth);
      break;
    case Job::Task::kRemove:
      files_->remove(job.own);
      break;
  }
}

void BlockStore::do_job(const Job& job, std::unique_lock<std::mutex>& lock) {
  const BlockEntry* const entry = index_.entry(job.own);
  const bool is_wanted =
      (job.task == Job::Task::kRemove) ||
      (entry != nullptr &&
       (job.task == Job::Task::kTouch || (job.task == Job::Task::kRead && entry->file == File::kReading) ||
        (job.task == Job::Task::kWrite && entry->file == File::kWriting)));
  if (!is_wanted) return;
  const StateBytes state = entry == nullptr ? nullptr : entry->state;
  Result result;
  std::exception_ptr failure;
  try {
    const Block block = job.task == Job::Task::kRemove ? Block() : *index_.block(job.own);
    lock.unlock();
    use_file(job, block, state, result);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!lock.owns_lock()) lock.lock();
  finish(job, state, result);
  try {
    if (failure != nullptr) std::rethrow_exception(failure);
  } catch (const Error& error) {
    result.kind = error.code() == ErrorCode::kInvalidFile ? "damaged" : "file";
    result.note = error.what();
  } catch (const std::exception& error) {
    result.kind = "memory";
    result.note = error.what();
  }
  if (!result.kind.empty()) report(lock, result.kind, result.note);
}

void BlockStore::finish(const Job& job, const StateBytes& state, Result& result) {
  BlockEntry* const entry = index_.entry(job.own);
  if (entry == nullptr) return;
  // Meanwhile the block may have been removed, and added again.
  if (job.task == Job::Task::kWrite && entry->file == File::kWriting && entry->state == state) {
    entry->file = result.is_done ? File::kWritten : File::kNone;
    trim();
  } else if (job.task == Job::Task::kRead && entry->file == File::kReading) {
    const bool is_done = result.is_done && result.state->size() == entry->n_bytes;
    entry->file = is_done ? File::kWritten : File::kNone;
    n_bytes_ -= entry->n_bytes;
    if (is_done) {
      keep(*entry, std::move(result.state), job.depth);
      entry->from_disk = true;
    }
  } else if (job.task == Job::Task::kTouch) {
    entry->is_touching = false;
  }
  erase_if_empty(job.own);
}

}  // namespace weft::engine
