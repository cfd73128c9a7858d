#include "base/pool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/cores.h"
#include "base/to_size.h"
#include "base/waiter.h"
#include "weft/error.h"

namespace weft::base {
namespace {

// Long enough to bridge the gap between two tokens, short enough not to heat an idle machine.
constexpr auto kSpinBeforeSleep = std::chrono::microseconds(200);
// Checks of a thread at the end of a phase, a microsecond or two, before it checks other groups' shares. A
// check takes cache lines from working threads.
constexpr std::uint32_t kPatience = 64;
// Checks after which a thread reads the common count itself. The thread that ended the phase may have been
// descheduled before it notified the group. It may also have notified so late that it overwrote the end of a
// later phase.
constexpr std::uint32_t kSuspicion = 4096;
// Stamps after which unused ones are renewed: a difference of 31 bits decides which of two stamps is older.
constexpr int kBitsOfStampAge = 28;
// The first one: only a few phases before stamps wrap around, so that every pool tests that.
constexpr std::uint32_t kFirstStamp = 0xffffff80u;

/// Asks for memory while its thread waits, in pieces so small that the thread is never late for it.
class Ahead {
 public:
  /// Memory that was prefetched after an earlier phase is not prefetched again.
  void set(std::uintptr_t begin, std::size_t bytes) {
    if (begin == begin_) return;
    begin_ = next_ = begin;
    end_ = begin + bytes;
  }

  /// Called at each check of a wait. A core drops prefetches that come faster than memory responds. With this
  /// number of lines at once and a pause after them, all arrive.
  void ask() {
    for (int i = 0; i < kLinesAtOnce && next_ < end_; ++i, next_ += kLine)
      __builtin_prefetch(reinterpret_cast<const void*>(next_));
  }

 private:
  static constexpr int kLinesAtOnce = 8;
  static constexpr std::size_t kLine = 64;
  std::uintptr_t begin_ = 0, next_ = 0, end_ = 0;
};

std::uint64_t pack(std::uint32_t stamp, std::uint32_t value) { return std::uint64_t{stamp} << 32 | value; }
std::uint32_t stamp_of(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
std::uint32_t value_of(std::uint64_t word) { return static_cast<std::uint32_t>(word); }

int groups_of(int n_threads, int group_size) {
  if (group_size == 0)
    group_size = n_threads <= Cores::kLeastGroup ? Cores::kLeastGroup : read_cores().group_size();
  return (n_threads + group_size - 1) / group_size;
}

}  // namespace

Pool::Pool(int n_threads, int max_phases, int n_helpers, int group_size)
    : n_threads_(n_threads),
      n_helpers_(n_threads > 1 ? n_helpers : 0),
      max_phases_(max_phases),
      n_groups_(groups_of(n_threads, group_size)),
      phases_(new Phase[to_size(max_phases)]),
      shares_(new Share[to_size(n_threads)]),
      groups_(new Group[to_size(n_groups_)]),
      soon_(new Soon[to_size(max_phases) * to_size(n_threads)]),
      next_stamp_(kFirstStamp) {
  WEFT_CHECK(n_threads >= 1 && n_threads <= kMaxThreads && max_phases >= 1 && n_helpers >= 0);
  for (int group = 0; group <= n_groups_; ++group) first_threads_.push_back(n_threads * group / n_groups_);
  renew_words(next_stamp_);
  // Before the first one. A thread that starts late, perhaps only at the pool's end, compares with the stamp
  // at its start.
  threads_call_.epoch.store(next_stamp_ - 1);
  helpers_call_.epoch.store(next_stamp_ - 1);
  start();
}

void Pool::start() {
  process_ = getpid();
  const std::uint32_t threads_seen = threads_call_.epoch.load(), helpers_seen = helpers_call_.epoch.load();
  try {
    threads_.reserve(to_size(n_workers() - 1));
    for (int i = 1; i < n_workers(); ++i)
      threads_.emplace_back([this, i, threads_seen, helpers_seen] {
        i < n_threads_ ? worker(threads_call_, i, threads_seen) : worker(helpers_call_, i, helpers_seen);
      });
  } catch (const std::system_error& error) {
    const std::size_t n_made = threads_.size() + 1;
    join_all();
    throw Error(ErrorCode::kOutOfMemory, "the system let this process have " + std::to_string(n_made) +
                                             " of " + std::to_string(n_workers()) + " threads (" +
                                             error.what() +
                                             "); use fewer threads, or raise its limit of processes");
  } catch (...) {
    join_all();
    throw;
  }
}

Pool::~Pool() {
  if (process_ != getpid()) forget_threads();
  join_all();
}

void Pool::forget_threads() {
  new std::vector<std::thread>(std::move(threads_));  // They can be neither joined nor detached.
  threads_.clear();
  threads_call_.n_asleep.store(0);
  helpers_call_.n_asleep.store(0);
}

void Pool::join_all() {
  stop_.store(true);
  for (Call* const call : {&threads_call_, &helpers_call_}) {
    call->epoch.fetch_add(1);
    call->epoch.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  stop_.store(false);
}

void Pool::run(std::span<const std::int32_t> n_tasks, Tasks tasks, void* context,
               std::span<const std::span<const std::byte>> ahead, std::span<const std::uint8_t> helped) {
  const int n_phases = static_cast<int>(n_tasks.size());
  WEFT_CHECK(n_phases <= max_phases_);
  if (n_threads_ == 1) {  // Nobody to share with, nor to wait for.
    for (int p = 0; p < n_phases; ++p)
      for (std::int32_t t = 0, n = n_tasks[to_size(p)]; t < n;) {
        const auto left = static_cast<std::uint32_t>(n - t);
        const std::int32_t end = t + static_cast<std::int32_t>(tasks_at_once(left, false));
        tasks(context, p, std::exchange(t, end), end, 0);
      }
    return;
  }
  if (process_ != getpid()) {
    forget_threads();
    start();
  }
  if (n_phases == 0) return;
  const std::uint32_t epoch = next_stamp_;
  next_stamp_ = epoch + static_cast<std::uint32_t>(n_phases);
  if ((epoch ^ next_stamp_) >> kBitsOfStampAge != 0) renew_words(epoch);
  tasks_ = tasks;
  context_ = context;
  n_phases_.store(n_phases, std::memory_order_relaxed);
  bool any_helped = false;
  for (int p = 0; p < n_phases; ++p) {
    const std::int32_t n = n_tasks[to_size(p)];
    const bool is_helped = n_helpers_ > 0 && !helped.empty() && helped[to_size(p)] != 0;
    any_helped = any_helped || is_helped;
    phases_[p].helped.store(is_helped, std::memory_order_relaxed);
    n_given_ += static_cast<std::uint64_t>(n);
    for (int t = 0; t < n_threads_; ++t) {
      const auto next = ahead.empty() ? std::span<const std::byte>() : ahead[to_size(p * n_threads_ + t)];
      const auto begin = reinterpret_cast<std::uintptr_t>(next.data());
      Soon& own = soon(p, t);
      // It is mostly the same as in the run before: a line that is not written stays with its thread.
      if (own.begin.load(std::memory_order_relaxed) != begin)
        own.begin.store(begin, std::memory_order_relaxed);
      if (own.bytes.load(std::memory_order_relaxed) != next.size())
        own.bytes.store(next.size(), std::memory_order_relaxed);
    }
    phases_[p].done_at.store(n_given_, std::memory_order_relaxed);
    phases_[p].n_tasks.store(pack(epoch + static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(n)),
                             std::memory_order_release);
  }
  wake(threads_call_, epoch);
  if (any_helped) wake(helpers_call_, epoch);
  work(epoch, 0);
}

void Pool::wake(Call& call, std::uint32_t epoch) {
  call.epoch.store(epoch, std::memory_order_seq_cst);
  if (call.n_asleep.load(std::memory_order_seq_cst) > 0) call.epoch.notify_all();
}

void Pool::renew_words(std::uint32_t stamp) {
  for (int t = 0; t < n_threads_; ++t) shares_[t].next.store(renewed_word(stamp), std::memory_order_release);
}

/// Runs the unclaimed tasks of a share of tasks `begin` to `end` - 1. False: the run is over.
bool Pool::run_share(const At& at, int owner, int group, std::uint32_t begin, std::uint32_t end) {
  const std::uint32_t stamp = stamp_of(at.tasks);
  const bool is_helper = at.thread >= n_threads_;
  Word& next = shares_[owner].next;
  std::uint32_t n_done = 0;
  for (;;) {
    std::uint64_t word = next.load(std::memory_order_acquire);
    // Read after the word: while the run continues, an older word belongs to an untouched share.
    if (phases_[at.phase].n_tasks.load(std::memory_order_acquire) != at.tasks) return false;
    const std::uint32_t first = first_unclaimed(word, stamp, begin, end);
    const std::uint32_t n = first >= end ? 0 : tasks_at_once(end - first, is_helper);
    if (n == 0) break;
    if (!next.compare_exchange_weak(word, pack(stamp, first + n), std::memory_order_acq_rel,
                                    std::memory_order_relaxed))
      continue;
    tasks_(context_, at.phase, static_cast<std::int32_t>(first), static_cast<std::int32_t>(first + n),
           at.thread);
    n_done += n;
    if (first + n == end) break;
  }
  if (n_done > 0) count(at, group, n_done);
  return true;
}

/// Counts tasks of a group's shares that this thread has done, and notifies the ends of groups and phases.
void Pool::count(const At& at, int group, std::uint32_t n_done) {
  Count& done = groups_[group].done;
  const std::uint64_t in_group = done.fetch_add(n_done, std::memory_order_acq_rel) + n_done;
  if (n_groups_ == 1) return;
  const auto n_tasks = static_cast<std::int32_t>(value_of(at.tasks));
  const auto of_group = static_cast<std::uint64_t>(first_task(n_tasks, first_thread(group + 1)) -
                                                   first_task(n_tasks, first_thread(group)));
  if (in_group < of_group) return;
  done.store(0, std::memory_order_relaxed);  // Nobody adds to it before the next phase.
  const std::uint64_t done_at = phases_[at.phase].done_at.load(std::memory_order_relaxed);
  if (done_.fetch_add(of_group, std::memory_order_acq_rel) + of_group < done_at) return;
  for (int i = 0; i < n_groups_; ++i)
    groups_[(group + i) % n_groups_].told.store(done_at, std::memory_order_release);
}

/// The shares of a group's threads, from `first`'s on. False: the run is over.
bool Pool::run_group(const At& at, int group, int first) {
  const auto n_tasks = static_cast<std::int32_t>(value_of(at.tasks));
  const int end_of_group = first_thread(group + 1);
  int owner = first;
  auto begin = static_cast<std::uint32_t>(first_task(n_tasks, owner));
  do {
    const auto end = static_cast<std::uint32_t>(first_task(n_tasks, owner + 1));
    if (begin < end && !run_share(at, owner, group, begin, end)) return false;
    begin = end;
    if (++owner < end_of_group) continue;
    owner = first_thread(group);
    begin = static_cast<std::uint32_t>(first_task(n_tasks, owner));
  } while (owner != first);
  return true;
}

/// So many groups, until the phase is over. False: the run is.
bool Pool::run_groups(const At& at, int first, int n, const Count& watched, std::uint64_t done_at) {
  for (int i = 0; i < n && watched.load(std::memory_order_acquire) < done_at; ++i) {
    const int group = (first + i) % n_groups_;
    if (!run_group(at, group, first_thread(group))) return false;
  }
  return true;
}

void Pool::work(std::uint32_t epoch, int thread) {
  const int n_phases = n_phases_.load(std::memory_order_relaxed);
  const bool is_helper = thread >= n_threads_;
  // Helpers begin at shares that lie apart.
  const int first = is_helper ? (thread - n_threads_) * n_threads_ / n_helpers_ : thread;
  int group = 0;
  while (first_thread(group + 1) <= first) ++group;
  const Count& watched = n_groups_ == 1 ? groups_[0].done : groups_[group].told;
  Ahead ahead;
  for (int p = 0; p < n_phases; ++p) {
    const At at = {phases_[p].n_tasks.load(std::memory_order_acquire), p, thread};
    if (stamp_of(at.tasks) != epoch + static_cast<std::uint32_t>(p)) return;
    const std::uint64_t done_at = phases_[p].done_at.load(std::memory_order_relaxed);
    // A late thread skips finished phases, and leaves the shares' lines to working threads.
    if (watched.load(std::memory_order_acquire) >= done_at) continue;
    const bool takes_part = !is_helper || phases_[p].helped.load(std::memory_order_relaxed);
    if (takes_part && !run_group(at, group, first)) return;
    if (!is_helper) {
      const Soon& own = soon(p, thread);
      ahead.set(own.begin.load(std::memory_order_relaxed), own.bytes.load(std::memory_order_relaxed));
    }
    Waiter wait;
    for (std::uint32_t n_looks = 1; watched.load(std::memory_order_acquire) < done_at; ++n_looks) {
      if (n_groups_ > 1) {
        if (takes_part && n_looks == kPatience && !run_groups(at, group + 1, n_groups_ - 1, watched, done_at))
          return;
        if (n_looks % kSuspicion == 0 && done_.load(std::memory_order_acquire) >= done_at) break;
      }
      ahead.ask();
      wait();
    }
  }
}

void Pool::worker(Call& call, int thread, std::uint32_t seen) {
  for (;;) {
    const auto start = std::chrono::steady_clock::now();
    while (call.epoch.load(std::memory_order_acquire) == seen) {
      for (int i = 0; i < 64 && call.epoch.load(std::memory_order_relaxed) == seen; ++i) pause_briefly();
      if (std::chrono::steady_clock::now() - start < kSpinBeforeSleep) continue;
      call.n_asleep.fetch_add(1, std::memory_order_seq_cst);
      call.epoch.wait(seen, std::memory_order_seq_cst);
      call.n_asleep.fetch_sub(1, std::memory_order_relaxed);
    }
    seen = call.epoch.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    work(seen, thread);
  }
}

int default_threads() { return std::min(read_cores().default_threads(), kMaxThreads); }

int default_helpers(int n_threads) { return std::min(read_cores().helpers(n_threads), kMaxThreads); }

}  // namespace weft::base
