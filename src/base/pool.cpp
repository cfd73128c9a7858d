#include "base/pool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/cores.h"
#include "base/waiter.h"
#include "weft/error.h"

namespace weft::base {
namespace {

// Long enough to bridge the gap between two tokens, short enough not to heat an idle machine.
constexpr auto kSpinBeforeSleep = std::chrono::microseconds(200);
// Tasks of a run: what others wait for, when a thread is put aside, must stay small.
constexpr std::uint32_t kMostAtOnce = 16;

/// Asks for memory while its thread waits, in pieces so small that the thread is never late for it.
class Ahead {
 public:
  /// What has been asked for behind an earlier phase is not asked for again.
  void set(std::uintptr_t begin, std::size_t bytes) {
    if (begin == begin_) return;
    begin_ = next_ = begin;
    end_ = begin + bytes;
  }

  /// As often as a wait looks whether it is over. A core drops what is asked for faster than memory answers:
  /// so many lines at a time, with a pause behind them, all arrive.
  void ask() {
    for (int i = 0; i < kLinesAtOnce && next_ < end_; ++i, next_ += kLine)
      __builtin_prefetch(reinterpret_cast<const void*>(next_));
  }

 private:
  static constexpr int kLinesAtOnce = 8;
  static constexpr std::size_t kLine = 64;
  std::uintptr_t begin_ = 0, next_ = 0, end_ = 0;
};

std::uint64_t pack(std::uint32_t epoch, std::uint32_t value) { return std::uint64_t{epoch} << 32 | value; }
std::uint32_t epoch_of(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
std::uint32_t value_of(std::uint64_t word) { return static_cast<std::uint32_t>(word); }

}  // namespace

Pool::Pool(int n_threads, int max_phases)
    : n_threads_(n_threads),
      max_phases_(max_phases),
      phases_(new Phase[static_cast<std::size_t>(max_phases)]),
      shares_(new Share[static_cast<std::size_t>(max_phases) * static_cast<std::size_t>(n_threads)]) {
  WEFT_CHECK(n_threads >= 1 && n_threads <= kMaxThreads && max_phases >= 1);
  start();
}

void Pool::start() {
  process_ = getpid();
  const std::uint32_t seen = epoch_.load();
  try {
    threads_.reserve(static_cast<std::size_t>(n_threads_ - 1));
    for (int i = 1; i < n_threads_; ++i) threads_.emplace_back([this, i, seen] { worker(i, seen); });
  } catch (const std::system_error& error) {
    const std::size_t n_made = threads_.size() + 1;
    join_all();
    throw Error(ErrorCode::kOutOfMemory, "the system let this process have " + std::to_string(n_made) +
                                             " of " + std::to_string(n_threads_) + " threads (" +
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
  n_asleep_.store(0);
}

void Pool::join_all() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  stop_.store(false);
}

void Pool::run(std::span<const std::int32_t> n_tasks, Tasks tasks, void* context,
               std::span<const std::span<const std::byte>> ahead) {
  const int n_phases = static_cast<int>(n_tasks.size());
  WEFT_CHECK(n_phases <= max_phases_);
  if (n_threads_ == 1) {  // Nobody to share with, nor to wait for.
    for (int p = 0; p < n_phases; ++p)
      for (std::int32_t t = 0, n = n_tasks[static_cast<std::size_t>(p)]; t < n;) {
        const std::int32_t end = std::min(n, t + static_cast<std::int32_t>(kMostAtOnce));
        tasks(context, p, std::exchange(t, end), end, 0);
      }
    return;
  }
  if (process_ != getpid()) {
    forget_threads();
    start();
  }
  const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  tasks_ = tasks;
  context_ = context;
  n_phases_.store(n_phases, std::memory_order_relaxed);
  for (int p = 0; p < n_phases; ++p) {
    const std::int32_t n = n_tasks[static_cast<std::size_t>(p)];
    phases_[p].left.store(pack(epoch, static_cast<std::uint32_t>(n)), std::memory_order_release);
    for (int t = 0; t < n_threads_; ++t) {
      Share& own = share(p, t);
      const auto soon =
          ahead.empty() ? std::span<const std::byte>() : ahead[static_cast<std::size_t>(p * n_threads_ + t)];
      own.ahead.store(reinterpret_cast<std::uintptr_t>(soon.data()), std::memory_order_relaxed);
      own.ahead_bytes.store(soon.size(), std::memory_order_relaxed);
      const auto first = static_cast<std::uint32_t>(first_task(n, t));
      own.next.store(pack(epoch, first), std::memory_order_release);
    }
    // After the shares: a thread still in the last run that sees this count must see their new epoch as well.
    phases_[p].n_tasks.store(n, std::memory_order_release);
  }
  epoch_.store(epoch, std::memory_order_seq_cst);
  if (n_asleep_.load(std::memory_order_seq_cst) > 0) epoch_.notify_all();
  work(epoch, 0);
}

bool Pool::run_share(std::uint32_t epoch, int phase, int owner, int thread) {
  const std::int32_t n_tasks = phases_[phase].n_tasks.load(std::memory_order_acquire);
  const auto end = static_cast<std::uint32_t>(first_task(n_tasks, owner + 1));
  Word& next = share(phase, owner).next;
  std::uint64_t word = next.load(std::memory_order_acquire);
  for (;;) {
    if (epoch_of(word) != epoch) return false;
    const std::uint32_t first = value_of(word);
    if (first >= end) return true;
    const std::uint32_t n = std::clamp((end - first) / 2, 1u, kMostAtOnce);
    if (!next.compare_exchange_weak(word, word + n, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    tasks_(context_, phase, static_cast<std::int32_t>(first), static_cast<std::int32_t>(first + n), thread);
    phases_[phase].left.fetch_sub(n, std::memory_order_acq_rel);
    word = next.load(std::memory_order_acquire);
  }
}

void Pool::work(std::uint32_t epoch, int thread) {
  const int n_phases = n_phases_.load(std::memory_order_relaxed);
  Ahead ahead;
  for (int p = 0; p < n_phases; ++p) {
    for (int i = 0; i < n_threads_; ++i) {
      if (!run_share(epoch, p, (thread + i) % n_threads_, thread)) return;
    }
    const Share& own = share(p, thread);
    ahead.set(own.ahead.load(std::memory_order_relaxed), own.ahead_bytes.load(std::memory_order_relaxed));
    Waiter wait;
    for (;;) {
      const std::uint64_t left = phases_[p].left.load(std::memory_order_acquire);
      if (epoch_of(left) != epoch) return;
      if (value_of(left) == 0) break;
      ahead.ask();
      wait();
    }
  }
}

void Pool::worker(int thread, std::uint32_t seen) {
  for (;;) {
    const auto start = std::chrono::steady_clock::now();
    while (epoch_.load(std::memory_order_acquire) == seen) {
      for (int i = 0; i < 64 && epoch_.load(std::memory_order_relaxed) == seen; ++i) pause_briefly();
      if (std::chrono::steady_clock::now() - start < kSpinBeforeSleep) continue;
      n_asleep_.fetch_add(1, std::memory_order_seq_cst);
      epoch_.wait(seen, std::memory_order_seq_cst);
      n_asleep_.fetch_sub(1, std::memory_order_relaxed);
    }
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    work(seen, thread);
  }
}

int default_threads() { return std::min(read_cores().default_threads(), kMaxThreads); }

}  // namespace weft::base
