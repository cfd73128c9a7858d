#include "backend/cpu/schedule.h"

#include <algorithm>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

/// Tasks of a launch that follows, at most. One thread does them while the others may have to wait for it: a
/// row of a small model takes it 0.6 us. The end of a phase costs 0.2 us with two threads, and more the more
/// there are.
std::int32_t most_tasks_to_follow(int n_threads) { return std::clamp(n_threads / 4, 1, 4); }

}  // namespace

Schedule::Schedule(const Program& program)
    : program_(program),
      first_launch_(to_size(program.n_phases) + 1),
      followers_(program.launches.size()),
      works_(program.launches.size()),
      left_(program.launches.size()),
      n_tasks_(to_size(program.n_phases)),
      helped_(n_tasks_.size()),
      phases_(n_tasks_.size()) {
  std::size_t launch = 0;
  for (std::size_t phase = 0; phase < first_launch_.size(); ++phase) {
    while (launch < works_.size() && program.launches[launch].phase < static_cast<int>(phase)) ++launch;
    first_launch_[phase] = launch;
  }
  for (std::size_t i = 0; i < works_.size(); ++i) {
    asks_each_step_ = asks_each_step_ || program.launches[i].launch->prepares_each_step();
    if (program.launches[i].may_follow)
      for (const std::size_t other : program.launches[i].after) {
        followers_[other].push_back(i);
        works_[other].may_be_followed = true;
      }
  }
  waits_.reserve(works_.size());
}

bool Schedule::is_as_before(const StepInfo& step) const {
  return known_ && step.n_threads == n_threads_ && std::ranges::equal(step.symbols, symbols_);
}

bool Schedule::begin_step(const StepInfo& step) {
  const bool as_before = is_as_before(step);
  if (as_before && !asks_each_step_) {
    for (const auto& [launch, left] : waits_) left_[launch].store(left, std::memory_order_relaxed);
    return false;
  }
  symbols_.assign(step.symbols.begin(), step.symbols.end());
  n_threads_ = step.n_threads;
  known_ = false;  // Until all launches are prepared: one may find no memory.
  waits_.clear();
  n_phases_ = 0;
  bool is_other = !as_before;
  for (std::size_t phase = 0; phase + 1 < first_launch_.size(); ++phase) {
    std::int32_t total = 0;
    bool computes = false;
    for (std::size_t i = first_launch_[phase]; i < first_launch_[phase + 1]; ++i) {
      Launch& launch = *program_.launches[i].launch;
      if (!as_before || launch.prepares_each_step()) {
        const std::int32_t n_tasks = launch.prepare(step);
        is_other = is_other || n_tasks != works_[i].n_tasks;
        works_[i].n_tasks = n_tasks;
      }
      place(i, step.n_threads);
      if (works_[i].follows) continue;
      total += works_[i].n_tasks;
      computes = computes || (works_[i].n_tasks > 0 && launch.computes());
    }
    if (total == 0) continue;
    phases_[n_phases_] = phase;
    helped_[n_phases_] = wants_help(computes, total, step.n_threads) ? 1 : 0;
    n_tasks_[n_phases_++] = total;
  }
  known_ = true;
  return is_other;
}

void Schedule::place(std::size_t launch, int n_threads) {
  const Program::Entry& entry = program_.launches[launch];
  Work& work = works_[launch];
  work.follows = false;
  work.phase = entry.phase;
  if (!entry.may_follow || work.n_tasks == 0 || work.n_tasks > most_tasks_to_follow(n_threads)) return;
  std::int32_t left = 0;
  int last = -1, last_idle = -1;
  for (const std::size_t other : entry.after) {
    left += works_[other].n_tasks;
    int& phase = works_[other].n_tasks > 0 ? last : last_idle;
    phase = std::max(phase, works_[other].phase);
  }
  // A launch without tasks is passed in its phase, not before: other launches may make the values that it
  // leaves unchanged.
  if (last < 0 || last < last_idle) return;
  work.follows = true;
  work.phase = last;
  left_[launch].store(left, std::memory_order_relaxed);
  waits_.emplace_back(launch, left);
}

}  // namespace weft::cpu
