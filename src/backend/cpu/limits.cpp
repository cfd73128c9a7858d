#include "backend/cpu/limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/memory.h"
#include "base/pool.h"
#include "weft/error.h"

namespace weft::cpu {
namespace {

// Well beyond third-level caches; divides by what read_memory takes at a time.
constexpr std::size_t kStreamBytes = std::size_t{256} << 20;
// Many and short: where other processes run, some pass finds the machine free.
constexpr int kPasses = 40;
// Small enough that a thread which is put aside delays a pass little, large enough not to be seen.
constexpr int kTasksPerThread = 8;
constexpr double kTaskSeconds = 0.5e-3;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The shortest of several runs of n_tasks tasks.
template <typename F>
double best_seconds(base::Pool& pool, std::int32_t n_tasks, const F& task) {
  double best = 0.0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = Clock::now();
    pool.parallel_for(n_tasks, task);
    const double seconds = seconds_since(start);
    best = pass == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

}  // namespace

MachineLimits measure_limits(Isa isa, int n_threads) {
  if (!supported(isa))
    throw Error(ErrorCode::kUnsupported, "this processor lacks the instruction set asked for");
  const Kernels& k = kernels(isa);
  base::Pool pool(n_threads > 0 ? n_threads : base::default_threads(), 1);
  MachineLimits limits{.n_threads = pool.n_threads(), .kernels = k.name};
  const std::int32_t n_tasks = pool.n_threads() * kTasksPerThread;
  std::atomic<std::uint64_t> sink{0};  // So that nothing is left out as unused.

  // How often per second all threads together do one round of work that registers hold.
  const auto rounds_per_second = [&](const auto& rounds) {
    std::int64_t n_rounds = 1 << 10;
    for (;; n_rounds *= 2) {
      const auto start = Clock::now();
      sink += rounds(n_rounds);
      if (seconds_since(start) > kTaskSeconds) break;
    }
    const double seconds = best_seconds(pool, n_tasks, [&](std::int32_t, int) { sink += rounds(n_rounds); });
    return static_cast<double>(n_rounds) * n_tasks / seconds;
  };
  limits.multiply_adds_per_second =
      rounds_per_second([&](std::int64_t n) { return k.dot_peak(n); }) * k.dot_peak_multiply_adds;
  limits.float_multiply_adds_per_second =
      rounds_per_second([&](std::int64_t n) { return static_cast<std::uint64_t>(k.fma_peak(n)); }) *
      k.fma_peak_multiply_adds;

  const base::Memory memory(kStreamBytes);
  const std::int64_t lines = static_cast<std::int64_t>(kStreamBytes) / kReadUnit;
  const auto part = [&](std::int32_t task) { return lines * task / n_tasks * kReadUnit; };
  pool.parallel_for(n_tasks, [&](std::int32_t task, int) {
    std::memset(memory.data() + part(task), task, static_cast<std::size_t>(part(task + 1) - part(task)));
  });
  const double read_seconds = best_seconds(pool, n_tasks, [&](std::int32_t task, int) {
    sink += k.read_memory(memory.data() + part(task), part(task + 1) - part(task));
  });
  limits.read_bytes_per_second = static_cast<double>(kStreamBytes) / read_seconds;
  return limits;
}

}  // namespace weft::cpu
