#pragma once
// A pool of threads that runs a program of phases. A phase is a number of independent tasks; a phase starts
// when all tasks of the one before are done.
//
// Each thread owns a contiguous share of a phase's tasks, so that it streams through neighbouring memory.
// When it is done, it takes tasks from the shares of others. Tasks are claimed in runs: half of the remaining
// ones at once, but not too many. A claim stops the flow of memory for as long as it takes. The pool waits
// only for started tasks, never for a thread. A thread that the system has descheduled, or that wakes late,
// costs only the work that it would have done. Which thread runs a task must therefore never matter to a
// result.
//
// A thread that waits for the end of a phase can use the time: it asks for memory that it is going to read.
//
// A claim is a locked instruction, before which all loads must have arrived. A stream from memory that stops
// for a claim every 48 KiB loses a third of its speed. So a thread counts the tasks that it has done of a
// share once, when none of the share is left to claim.
//
// Many threads are in groups. A line of memory that 64 cores write and look at moves between them for longer
// than a short phase lasts (labs/pool_lab model: simulated). So a group has as many threads as cores share an
// L3, but at most 16. It counts its shares' tasks on its own cache line. The thread that completes a group's
// count adds it to the common count. The thread that completes the common count notifies each group on a line
// that only the group's threads read. A thread takes over from its own group at once, from others when it has
// waited for a moment. A pool of one group has one count, and its threads look at that.
//
// Nothing is reset for a run. A share's word has the stamp of the phase that it was last claimed in. An older
// stamp means that the share is untouched in the current phase. A newer stamp means that the phase is over.
// Counts continue from run to run, or the thread that completes them sets them to 0. Thus a thread finds its
// share's line where it left it, and the caller writes 24 bytes a phase, however many threads there are.
//
// Slow cores help. In addition to its threads, each on a core as fast as the others', a pool may have helpers
// for slower cores. They have no shares, and sleep through runs without a phase for helpers. They claim few
// tasks at once and none of the last tasks of a share, so no thread waits long for a slow core. (Simulated,
// with 4 to 16 cores that are 1.5 to 4 times slower and 8 fast ones: such phases last 0.43 to 0.99 of their
// time without help; with equal shares for all, 0.44 to 1.34.)
//
// The child of a fork has none of its parent's threads. A pool that was idle then starts new threads when it
// runs there. Its destructor does not wait for the old ones.
//
// Threads are not pinned. Pinned workers, one per core, were not faster, either alone or next to a busy
// process. A pinned thread also cannot leave a core that another process needs.
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/to_size.h"
#include "weft/backend/host_threads.h"

namespace weft::base {

/// No pool has more threads: more than machines have cores.
inline constexpr int kMaxThreads = 1024;

/// The number of tasks of a share to claim at once, if `n_left` are unclaimed.
constexpr std::uint32_t tasks_at_once(std::uint32_t n_left, bool is_helper) {
  if (is_helper) return n_left <= 2 ? 0 : std::clamp(n_left / 8, 1u, 4u);
  return std::clamp(n_left / 2, 1u, 16u);
}

// A share's word is (stamp << 32 | the first task that nobody has claimed in that stamp's phase).

/// The first task of a share of `begin` to `end` - 1 that a thread in the phase of this stamp may claim;
/// `end` or above: none.
constexpr std::uint32_t first_unclaimed(std::uint64_t word, std::uint32_t stamp, std::uint32_t begin,
                                        std::uint32_t end) {
  const auto age = static_cast<std::int32_t>(stamp - static_cast<std::uint32_t>(word >> 32));
  return age < 0 ? end : age == 0 ? static_cast<std::uint32_t>(word) : begin;
}
/// The word that a share gets before the phase of this stamp so that it is not taken for a newer one. A
/// thread that is late in the phase before, whose stamp it carries, must find nothing to claim.
constexpr std::uint64_t renewed_word(std::uint32_t stamp) {
  return std::uint64_t{stamp - 1} << 32 | 0xffffffffu;
}

class Pool final : public HostThreads {
 public:
  /// n_threads, 1 to kMaxThreads, counts the caller; n_threads - 1 threads are started, and n_helpers: none
  /// if n_threads is 1. No group has more than group_size threads; 0: chosen for this machine. Throws Error
  /// kOutOfMemory where the system limits the process to fewer threads; threads that were started have ended
  /// then.
  Pool(int n_threads, int max_phases, int n_helpers = 0, int group_size = 0);
  ~Pool() override;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int n_threads() const { return n_threads_; }
  /// Includes the helpers. The thread number that a task gets is below it.
  int n_workers() const { return n_threads_ + n_helpers_; }
  int max_phases() const { return max_phases_; }

  /// Runs all tasks t < n_tasks[p] of each phase p, phase after phase, as runs of neighbours: `tasks(context,
  /// p, begin, end, thread)` does those from begin to end - 1. The caller works too. Returns when all is
  /// done. One caller at a time; tasks must not throw. Allocates nothing, but the first time in a forked
  /// child.
  using Tasks = void (*)(void* context, int phase, std::int32_t begin, std::int32_t end, int thread);
  /// `ahead`, if not empty, has data to prefetch for each phase and thread, [phase * n_threads + thread]: the
  /// memory that the thread reads soon after that phase. `helped`, if not empty, is other than 0 for phases
  /// in which helpers take part.
  void run(std::span<const std::int32_t> n_tasks, Tasks tasks, void* context,
           std::span<const std::span<const std::byte>> ahead = {}, std::span<const std::uint8_t> helped = {});

  /// The first task of the thread's share in a phase with `n_tasks` tasks.
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
  // Words that hold (stamp << 32 | value): each phase of each run has a stamp of its own, one more than the
  // one before. So a thread which is late can neither claim a task nor believe a phase of another run.
  using Word = std::atomic<std::uint64_t>;
  using Count = std::atomic<std::uint64_t>;
  struct Phase {
    Word n_tasks{0};
    // All tasks of all runs up to this phase's end. A thread that is late may read another run's, and waits
    // for that one.
    Count done_at{0};
    std::atomic<bool> helped{false};
  };
  struct alignas(64) Share {
    Word next{0};  // The first unclaimed task.
  };
  struct Group {
    // Tasks of its threads' shares that are done: in this phase, or if there is one group, ever.
    alignas(64) Count done{0};
    // done_at of the last phase that is over, if there are several groups.
    alignas(64) Count told{0};
  };
  // Memory that a thread prefetches after a phase. A late thread may see the values of another run, or half
  // of each. Prefetching invalid memory does nothing.
  struct Soon {
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::size_t> bytes{0};
  };
  /// What threads wait at for the next run.
  struct Call {
    alignas(64) std::atomic<std::uint32_t> epoch{0};  // The stamp of its first phase.
    alignas(64) std::atomic<int> n_asleep{0};
  };
  /// Where a thread is.
  struct At {
    std::uint64_t tasks;  // The phase's word.
    int phase;
    int thread;
  };

  void start();
  void forget_threads();
  void work(std::uint32_t epoch, int thread);
  void worker(Call& call, int thread, std::uint32_t seen);
  static void wake(Call& call, std::uint32_t epoch);
  void join_all();
  bool run_share(const At& at, int owner, int group, std::uint32_t begin, std::uint32_t end);
  bool run_group(const At& at, int group, int first);
  bool run_groups(const At& at, int first, int n, const Count& watched, std::uint64_t done_at);
  void count(const At& at, int group, std::uint32_t n_done);
  void renew_words(std::uint32_t stamp);
  int first_thread(int group) const { return first_threads_[to_size(group)]; }
  Soon& soon(int phase, int thread) { return soon_[to_size(thread) * to_size(max_phases_) + to_size(phase)]; }

  const int n_threads_;
  const int n_helpers_;
  const int max_phases_;
  const int n_groups_;
  std::vector<int> first_threads_;  // By group, and the end.
  std::unique_ptr<Phase[]> phases_;
  std::unique_ptr<Share[]> shares_;  // By thread.
  std::unique_ptr<Group[]> groups_;
  std::unique_ptr<Soon[]> soon_;  // [thread][phase]
  std::uint64_t n_given_ = 0;     // Tasks of all runs.
  std::uint32_t next_stamp_;
  std::atomic<int> n_phases_{0};
  Tasks tasks_ = nullptr;
  void* context_ = nullptr;

  alignas(64) Count done_{0};  // Groups whose share of their phase is done, if there are several.
  Call threads_call_, helpers_call_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
  pid_t process_ = 0;  // Whose they are.
};

/// Threads that this process should use: one a fast core that it may use, within its quota (cores.h).
int default_threads();
/// The number of helpers for this number of threads (Cores::helpers).
int default_helpers(int n_threads);

}  // namespace weft::base
