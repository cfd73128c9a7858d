#pragma once
// Takes the times of a plan's launches while steps run, for a Profile. The plan asks for it only while it has
// one.
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "base/to_size.h"
#include "weft/profile.h"

namespace weft::cpu {

class Recorder {
 public:
  /// `names` are the launches' kinds (kind_of), in their order; launches of the same kind are one in the
  /// profile, which must outlive the recorder.
  Recorder(Profile& profile, std::span<const std::string> names, int n_threads);

  void begin_step();
  /// Called by any thread, for each run of tasks of the step.
  void tasks_begin(int thread) { threads_[to_size(thread)].tasks_begin = now(); }
  void tasks_end(int thread, std::size_t launch);
  /// Called when all tasks are done, with the number of phases.
  void end_step(std::size_t n_phases);
  /// For each launch that had something to do in the step.
  void count(std::size_t launch, const Work& work);

 private:
  struct Times {
    double busy = 0.0, wait = 0.0;
  };
  struct alignas(64) Thread {
    double tasks_begin = 0.0;
    double last_end = 0.0;             // Of its last task; of the step's begin before the first.
    std::size_t last_launch = 0;       // What it did last, and is waiting behind.
    std::vector<Times> times;          // By launch.
    std::vector<Profile::Span> spans;  // Of this step.
  };

  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  Profile& profile_;
  std::vector<std::size_t> work_of_;  // By launch: its place in the profile.
  std::vector<Thread> threads_;
  std::chrono::steady_clock::time_point start_;
  double step_begin_ = 0.0;
};

/// The description of a launch of that layer (NodeTag::layer), without what differs from layer to layer.
std::string kind_of(const std::string& description, int layer);

}  // namespace weft::cpu
