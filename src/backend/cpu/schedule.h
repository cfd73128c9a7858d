#pragma once
// What of a program a step runs, and when. A launch that may follow others and has few tasks in a step needs
// no phase of its own: the thread that finishes the last of the tasks that it reads from goes on with it,
// while the others do what is left of the phase, or wait for its end. So a phase in which one thread would
// have made the step's few rows, and its barrier, are saved. Phases without tasks are left out.
//
// Who waits fetches. A thread that waits for a phase to end asks for the beginning of its share of the next
// weights, eight lines between two looks: a core drops prefetches that come faster than memory answers, and
// asking for all at once gained nothing. It is worth 2 to 3 % of a small model's step where one thread cannot
// use all of the memory's bandwidth, under 1 % where it can.
//
// Who is last goes on. What stands between the products of a layer is little work in a step of few rows,
// where one thread would do it in a phase of its own. Such a launch (a chain of rows, the sorting by experts,
// the merge of the best) follows instead: tasks count down what it waits for, and the thread that finishes
// the last one does it at once (schedule.h). Likewise a group of columns is quantised by the task that makes
// the last of them, whatever the number of rows (launches/quantised_output.h), and pages that several tasks
// share are merged by the last. So a layer has five phases when it decodes and eight when it reads a prompt:
// Q, K and V with what turns and stores them; attention; its product; gate and up; down. Rows done again by
// each thread instead would save the same barriers, but every thread would need memory for them, read what
// the others made, and not fetch weights meanwhile.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/program.h"

namespace weft::cpu {

/// Whether slow cores should help with a phase: one that computes, and has so many tasks for each thread that
/// none waits long for what a slow core has taken.
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
  /// Tasks of the step's phases, those of a phase's launches one after another.
  std::span<const std::int32_t> n_tasks() const { return {n_tasks_.data(), n_phases_}; }
  /// By phase of the step, whether it wants help; 0 or 1.
  std::span<const std::uint8_t> helped() const { return {helped_.data(), n_phases_}; }
  /// Tasks of a launch, in a phase or behind others.
  std::int32_t tasks_of(std::size_t launch) const { return works_[launch].n_tasks; }

  /// Calls f(launch, begin, end) for the launches that tasks [begin, end) of a phase are part of.
  template <typename F>
  void for_each_launch(int phase, std::int32_t begin, std::int32_t end, F f) const {
    std::int32_t first = 0;
    const std::size_t program_phase = phases_[static_cast<std::size_t>(phase)];
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
  /// To be called when so many tasks of a launch are done: calls f(launch) for those that can now follow.
  template <typename F>
  void done(std::size_t launch, std::int32_t n_tasks, F f) {
    if (!works_[launch].may_be_followed) return;
    for (const std::size_t follower : followers_[launch])
      if (works_[follower].follows &&
          left_[follower].fetch_sub(n_tasks, std::memory_order_acq_rel) == n_tasks)
        f(follower);
  }

 private:
  /// Of a launch, in this step.
  struct Work {
    std::int32_t n_tasks = 0;
    bool follows = false;
    bool may_be_followed = false;  // In any step.
    int phase = 0;                 // Of the program; where it follows, that of the launch that is done last.
  };
  bool is_as_before(const StepInfo& step) const;
  void place(std::size_t launch, int n_threads);

  const Program& program_;
  std::vector<std::size_t> first_launch_;            // By phase of the program.
  std::vector<std::vector<std::size_t>> followers_;  // By launch: those that may follow it.
  std::vector<Work> works_;
  std::vector<std::atomic<std::int32_t>> left_;  // By launch that follows: tasks that it waits for.
  std::vector<std::pair<std::size_t, std::int32_t>> waits_;  // Of this step: launches that follow, and left_.
  std::vector<std::int32_t> n_tasks_;                        // By phase of the step.
  std::vector<std::uint8_t> helped_;                         // By phase of the step.
  std::vector<std::size_t> phases_;                          // By phase of the step: that of the program.
  std::size_t n_phases_ = 0;                                 // Of the step.
  bool asks_each_step_ = false;                              // Whether any launch does.
  bool known_ = false;                                       // What follows is of the step before.
  std::vector<std::int64_t> symbols_;
  int n_threads_ = 0;
};

}  // namespace weft::cpu
