// Since 0.1
#pragma once
// Profiles of steps: the time of each kind of work. Compare it with the machine's peak speeds (measure.h).
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

/// Multiply-add operations by operand types, or the number of them that a machine makes in a second.
struct MultiplyAdds {
  double int8 = 0.0;  ///< Quantised weights by quantised activations.
  double f32 = 0.0;   ///< Floats. F16 and BF16 become floats before they are multiplied, ...
  double bf16 = 0.0;  ///< ... but for pairs of BF16, which is how attention reads caches of that type.

  double all() const { return int8 + f32 + bf16; }
  MultiplyAdds& operator+=(const MultiplyAdds& other);
};

/// Each step of a plan (DevicePlan::set_profile) or context (Context::set_profile) adds to its profile.
/// Numbers accumulate until they are cleared. Do not access it while a step runs.
struct Profile {
  /// One kind of work: the same kernel with the same operands, the layers taken together.
  struct Work {
    std::string name = {};   ///< "matmul attn_q.weight"
    std::int64_t calls = 0;  ///< Steps in which it had tasks.
    /// Total over all threads: time in its tasks, and idle time after it (claiming tasks, waiting for other
    /// threads).
    double busy_seconds = 0.0;
    double wait_seconds = 0.0;
    /// The least that must be read and multiplied: weights, and the cache cells that rows see, once a step
    /// each. Products and attention only, 0 elsewhere; activations do not count.
    double bytes = 0.0;
    MultiplyAdds multiply_adds = {};
    /// Its part of Profile::seconds: concurrent threads count once.
    double seconds = 0.0;
  };
  /// A period in which a thread worked on one launch only.
  struct Span {
    std::int32_t work = 0;  ///< Index into `work`.
    std::int32_t thread = 0;
    std::int64_t step = 0;
    double begin = 0.0, end = 0.0;  ///< Seconds since the profile was given.
  };

  std::vector<Work> work = {};   ///< In the order of a step.
  std::vector<Span> spans = {};  ///< The first max_spans spans.
  std::size_t max_spans = 0;     ///< 0: no spans.
  std::int64_t n_steps = 0;
  /// The number of phases of all steps, CPU only. All threads wait for each other between phases.
  std::int64_t n_phases = 0;
  int n_threads = 0;
  double seconds = 0.0;  ///< Sum over steps: from the first task's start to the last task's end.

  double bytes() const;
  MultiplyAdds multiply_adds() const;
};

}  // namespace weft

#pragma GCC visibility pop
