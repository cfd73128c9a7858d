#pragma once
// The launches of a program that a step runs, and their phases. A launch that may follow others and has few
// tasks in a step needs no phase of its own. The thread that finishes the last of the tasks that it reads
// from runs it. The other threads finish the phase, or wait for its end. So a phase in which one thread would
// have made the step's few rows, and its barrier, are saved. Phases without tasks are left out.
//
// Idle threads prefetch. A thread that waits for a phase to end prefetches the beginning of its share of the
// next weights, eight lines between two checks. A core drops prefetches that come faster than memory
// responds, and prefetching everything at once gained nothing. It saves 2 to 3 % of a small model's step if
// one thread cannot use all of the memory's bandwidth, under 1 % if it can.
//
// The last thread of a phase runs the dependent launch. Between the products of a layer there is little work
// in a step of few rows, and one thread would do it in a phase of its own. Such a launch (a chain of rows,
// the sorting by experts, the merge of the best) follows instead. Tasks count down its dependencies, and the
// thread that finishes the last one runs it at once. Likewise the task that completes a group of columns
// quantises it, for any number of rows (launches/quantised_output.h). Pages that several tasks share are
// merged by the last task. So a layer has five phases when it decodes and eight in prefill. The five are Q, K
// and V with their rope and stores; attention; its product; gate and up; down. Rows computed redundantly by
// each thread would save the same barriers. But every thread would need memory for them, read the others'
// results, and could not prefetch weights.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/program.h"
#include "base/to_size.h"

namespace weft::cpu {

/// Whether slow cores should help with a phase: it is compute-bound, and has enough tasks per thread that no
/// thread waits long for a slow core.
constexpr bool wants_help(bool computes, std::int32_t n_tasks, int n_threads) {
  constexpr int kLeastTasksPerThread = 8;
  return computes && n_tasks / kLeastTasksPerThread >= n_threads;
}

class Schedule {
 public:
  explicit Schedule(const Program& program);

  /// Asks the launches for their tasks, as far as those may be others than in the step before. False: they
  /// are the same.
  bool begin_step(const StepInfo& step);
  /// Addresses changed: the next step asks all launches.
  void forget() { known_ = false; }
  /// Tasks of the step's phases; a phase's launches follow one another.
  std::span<const std::int32_t> n_tasks() const { return {n_tasks_.data(), n_phases_}; }
  /// By phase of the step, whether it wants help; 0 or 1.
  std::span<const std::uint8_t> helped() const { return {helped_.data(), n_phases_}; }
  /// Tasks of a launch, in a phase or as a follower.
  std::int32_t tasks_of(std::size_t launch) const { return works_[launch].n_tasks; }

  /// Calls f(launch, begin, end) for the launches that tasks [begin, end) of a phase are part of.
  template <typename F>
  void for_each_launch(int phase, std::int32_t begin, std::int32_t end, F f) const {
    std::int32_t first = 0;
    const std::size_t program_phase = phases_[to_size(phase)];
    for (std::size_t i = first_launch_[program_phase]; i < first_launch_[program_phase + 1] && first < end;
         ++i) {
      if (works_[i].follows) continue;
      const std::int32_t own_begin = std::max(begin, first) - first;
      const std::int32_t own_end = std::min(end - first, works_[i].n_tasks);
      first += works_[i].n_tasks;
      if (own_begin < own_end) f(i, own_begin, own_end);
    }
  }
  /// Calls f(launch) for all that have tasks and follow none, in an order in which one thread can do them.
  template <typename F>
  void for_each_launch(F f) const {
    for (std::size_t i = 0; i < works_.size(); ++i)
      if (!works_[i].follows && works_[i].n_tasks > 0) f(i);
  }
  /// Call it when n_tasks tasks of a launch are done; calls f(launch) for launches that can now follow.
  template <typename F>
  void done(std::size_t launch, std::int32_t n_tasks, F f) {
    if (!works_[launch].may_be_followed) return;
    for (const std::size_t follower : followers_[launch])
      if (works_[follower].follows &&
          left_[follower].fetch_sub(n_tasks, std::memory_order_acq_rel) == n_tasks)
        f(follower);
  }

 private:
  /// A launch's data in this step.
  struct Work {
    std::int32_t n_tasks = 0;
    bool follows = false;
    bool may_be_followed = false;  // In any step.
    int phase = 0;  // The program's; for a follower, the phase of the launch that is done last.
  };
  bool is_as_before(const StepInfo& step) const;
  void place(std::size_t launch, int n_threads);

  const Program& program_;
  std::vector<std::size_t> first_launch_;            // By phase of the program.
  std::vector<std::vector<std::size_t>> followers_;  // By launch: its possible followers.
  std::vector<Work> works_;
  std::vector<std::atomic<std::int32_t>> left_;  // By launch that follows: tasks that it waits for.
  std::vector<std::pair<std::size_t, std::int32_t>> waits_;  // In this step: followers, and left_.
  std::vector<std::int32_t> n_tasks_;                        // By phase of the step.
  std::vector<std::uint8_t> helped_;                         // By phase of the step.
  std::vector<std::size_t> phases_;                          // By phase of the step: the program's phase.
  std::size_t n_phases_ = 0;                                 // Of the step.
  bool asks_each_step_ = false;                              // Whether any launch does.
  bool known_ = false;                                       // What follows is of the step before.
  std::vector<std::int64_t> symbols_;
  int n_threads_ = 0;
};

}  // namespace weft::cpu
