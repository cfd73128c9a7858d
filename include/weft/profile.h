// Since 0.1
#pragma once
// Profiles of steps: time, bytes and operations of each kind of work. Compare them with the machine's peaks
// (weft/measure.h).
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

/// Multiply-adds by operand type: a count, or a rate per second.
struct MultiplyAdds {
  double int8 = 0.0;  ///< Quantised weights by quantised activations.
  double f32 = 0.0;   ///< Floats, and F16 and BF16 that are converted before multiplication.
  double bf16 = 0.0;  ///< Pairs of BF16, as attention multiplies them for caches of that type.

  double all() const { return int8 + f32 + bf16; }
  MultiplyAdds& operator+=(const MultiplyAdds& other);
};

/// A profile of all steps since it was given to a context (Context::set_profile) or device plan
/// (DevicePlan::set_profile). Numbers add up. Do not access it while a step runs.
struct Profile {
  /// One kind of work: a kernel with one kind of operand, summed over layers.
  struct Work {
    std::string name = {};   ///< "matmul attn_q.weight"
    std::int64_t calls = 0;  ///< The number of steps in which it ran.
    /// Sums over all threads: time in its tasks, and time between its tasks and the next work (claiming
    /// tasks, waiting for other threads).
    double busy_seconds = 0.0;
    double wait_seconds = 0.0;
    /// The bytes and multiply-adds that the work needs at least: weights once per step, and the cache cells
    /// that rows attend to. They are 0 except for matrix products and attention. Activations do not count.
    double bytes = 0.0;
    MultiplyAdds multiply_adds = {};
    /// Its share of Profile::seconds, in which concurrent threads count once.
    double seconds = 0.0;
  };
  /// A period in which one thread worked on one launch of a kernel, for timelines.
  struct Span {
    std::int32_t work = 0;  ///< Index into `work`.
    std::int32_t thread = 0;
    std::int64_t step = 0;
    double begin = 0.0, end = 0.0;  ///< Seconds since the profile began.
  };

  std::vector<Work> work = {};   ///< In the order of a step's work.
  std::vector<Span> spans = {};  ///< The first max_spans spans.
  std::size_t max_spans = 0;     ///< 0: no spans.
  std::int64_t n_steps = 0;
  /// The number of barriers of all steps, at which CPU threads wait for each other.
  std::int64_t n_phases = 0;
  int n_threads = 0;
  double seconds = 0.0;  ///< Sum over steps of the time from the first task's start to the last task's end.

  double bytes() const;
  MultiplyAdds multiply_adds() const;
};

}  // namespace weft

#pragma GCC visibility pop
