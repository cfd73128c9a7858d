#pragma once
// A pool of threads that runs a program of phases. A phase is a number of independent tasks; a phase starts
// when all tasks of the one before are done.
//
// Each thread owns a contiguous share of a phase's tasks (so that it streams through neighbouring memory)
// and, when it is done, takes over what is left of the others' shares. Tasks are claimed in runs, half of
// what is left at once but not too many: a claim stops the flow of memory for as long as it takes. Nothing
// waits for a thread, only for tasks that have been started: a thread that the system has put aside, or that
// wakes late, costs the work it would have done and no more. Which thread runs a task must therefore never
// matter to a result.
//
// A thread that waits for the end of a phase can use the time: it asks for memory that it is going to read.
//
// A task, not a thread, is waited for. The pool's phases end when their tasks are done; a thread that the
// system put aside delays nobody. Tasks are claimed in runs, half of what is left at once and never many: a
// claim is a locked instruction, before which all loads must have arrived, and a stream from memory that
// stops for one every 48 KiB loses a third of its speed.
//
// The child of a fork has none of its parent's threads: a pool that was idle then gets new ones when it runs
// there, and does not wait for the old ones when it ends.
//
// Threads are not pinned. Workers that were, each to a core, were as fast, alone and beside a busy process;
// and what is pinned cannot leave a core that somebody else wants.
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace weft::base {

/// No pool has more threads: more than machines have cores.
inline constexpr int kMaxThreads = 1024;

class Pool {
 public:
  /// n_threads, 1 to kMaxThreads, counts the caller; n_threads - 1 threads are started. max_phases bounds
  /// later programs. Throws Error kOutOfMemory where the system does not let the process have so many
  /// threads; those that were started have ended then.
  Pool(int n_threads, int max_phases);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int n_threads() const { return n_threads_; }
  int max_phases() const { return max_phases_; }

  /// Runs all tasks t < n_tasks[p] of each phase p, phase after phase, as runs of neighbours: `tasks(context,
  /// p, begin, end, thread)` does those from begin to end - 1. The caller works too. Returns when all is
  /// done. One caller at a time; tasks must not throw. Allocates nothing, but the first time in a forked
  /// child.
  using Tasks = void (*)(void* context, int phase, std::int32_t begin, std::int32_t end, int thread);
  /// `ahead`, if not empty, has for each phase and thread, [phase * n_threads + thread], what the thread
  /// reads soon after that phase, and had better have in its cache by then.
  void run(std::span<const std::int32_t> n_tasks, Tasks tasks, void* context,
           std::span<const std::span<const std::byte>> ahead = {});

  /// Where the thread's share of a phase with so many tasks begins.
  std::int32_t first_task(std::int32_t n_tasks, int thread) const {
    return static_cast<std::int32_t>(std::int64_t{n_tasks} * thread / n_threads_);
  }

  /// For one phase and any callable f(task, thread).
  template <typename F>
  void parallel_for(std::int32_t n_tasks, F&& f) {
    const std::int32_t counts[] = {n_tasks};
    run(
        counts,
        [](void* c, int, std::int32_t begin, std::int32_t end, int thread) {
          for (std::int32_t t = begin; t < end; ++t)
            (*static_cast<std::remove_reference_t<F>*>(c))(t, thread);
        },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  // Words that hold (epoch << 32 | value), so that a thread which is late by a whole run can neither claim a
  // task nor believe a phase of another run.
  using Word = std::atomic<std::uint64_t>;
  struct Phase {
    alignas(64) Word left{0};  // Tasks that are not done yet.
    alignas(64) std::atomic<std::int32_t> n_tasks{0};
  };
  struct alignas(64) Share {
    Word next{0};  // The first task that nobody has claimed.
    // What to ask for behind the phase. A thread that is late may see what belongs to another run, or half of
    // each: to ask for memory that is not there does nothing.
    std::atomic<std::uintptr_t> ahead{0};
    std::atomic<std::size_t> ahead_bytes{0};
  };

  void start();
  void forget_threads();
  void work(std::uint32_t epoch, int thread);
  void worker(int thread, std::uint32_t seen);
  void join_all();
  bool run_share(std::uint32_t epoch, int phase, int owner, int thread);
  Share& share(int phase, int thread) {
    return shares_[static_cast<std::size_t>(phase * n_threads_ + thread)];
  }

  const int n_threads_;
  const int max_phases_;
  std::unique_ptr<Phase[]> phases_;
  std::unique_ptr<Share[]> shares_;  // [phase][thread]
  std::atomic<int> n_phases_{0};
  Tasks tasks_ = nullptr;
  void* context_ = nullptr;

  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<int> n_asleep_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
  pid_t process_ = 0;  // Whose they are.
};

/// Threads that this process should use: one a fast core that it may use, within its quota (cores.h).
int default_threads();

}  // namespace weft::base
