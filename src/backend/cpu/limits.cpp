#include "backend/cpu/limits.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <vector>

#include "backend/cpu/layout/packed.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::cpu {
namespace {

// Well beyond third-level caches; divides by what read_memory takes at a time.
constexpr std::size_t kStreamBytes = std::size_t{256} << 20;
// Many and short: where other processes run, some pass finds the machine free.
constexpr int kPasses = 40;
// Small enough that a thread which is put aside delays a pass little, large enough not to be seen.
constexpr int kLimitTasksPerThread = 8;
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

/// How often per second all threads together do one round of work that is theirs alone: rounds(n) does n.
template <typename F>
double rounds_per_second(base::Pool& pool, const F& rounds) {
  std::atomic<std::uint64_t> sink{0};  // So that nothing is left out as unused.
  std::int64_t n_rounds = 1;
  for (;; n_rounds *= 2) {
    const auto start = Clock::now();
    sink += rounds(n_rounds, 0);
    if (seconds_since(start) > kTaskSeconds) break;
  }
  const std::int32_t n_tasks = pool.n_threads() * kLimitTasksPerThread;
  const double seconds =
      best_seconds(pool, n_tasks, [&](std::int32_t, int thread) { sink += rounds(n_rounds, thread); });
  return static_cast<double>(n_rounds) * n_tasks / seconds;
}

const Kernels& kernels_or_error(Isa isa) {
  if (!supported(isa))
    throw Error(ErrorCode::kUnsupported, "this processor lacks the requested instruction set");
  return kernels(isa);
}

}  // namespace

double measure_products(Isa isa, DType weights, int n_threads) {
  const Kernels& k = kernels_or_error(isa);
  // The working set of a prompt's product in a task: panels in the second-level cache, some tiles of rows in
  // the first.
  constexpr std::int64_t kOutputs = 8 * kPanelRows, kInputs = 1024, kRows = 32;
  const Form form = activation_form(weights);
  base::Pool pool(n_threads > 0 ? n_threads : base::default_threads(), 1);
  // In every type these bytes are numbers in the middle of its range.
  const std::vector<std::byte> canonical(to_size(kOutputs) * row_bytes(weights, kInputs), std::byte{0x2c});
  const std::vector<float> ones(to_size(kInputs), 1.0f);
  const std::size_t x_row_bytes =
      form == Form::kPlain ? ones.size() * sizeof(float) : activation_row_bytes(form, kInputs);
  struct Operands {
    base::Memory panels, x, out;
  };
  std::vector<Operands> of_threads;
  for (int i = 0; i < pool.n_threads(); ++i) {
    Operands& own = of_threads.emplace_back(Operands{base::Memory(packed_bytes(weights, kOutputs, kInputs)),
                                                     base::Memory(kRows * x_row_bytes),
                                                     base::Memory(kRows * kOutputs * sizeof(float))});
    pack_panels(weights, kOutputs, kInputs, canonical.data(), 0, kOutputs / kPanelRows, own.panels.data());
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::byte* const to = own.x.data() + to_size(row) * x_row_bytes;
      if (form == Form::kPlain) {
        std::memcpy(to, ones.data(), x_row_bytes);
      } else {
        k.quantise_row(form, ones.data(), kInputs, to);
      }
    }
  }
  const auto products = [&](std::int64_t n, int thread) {
    const Operands& own = of_threads[to_size(thread)];
    PackedMatrix matrix = packed_shape(weights, kOutputs, kInputs);
    matrix.data = own.panels.data();
    const MatmulArgs args = {.weight = &matrix,
                             .x = own.x.data(),
                             .x_row_bytes = x_row_bytes,
                             .out = reinterpret_cast<float*>(own.out.data()),
                             .out_stride = kOutputs};
    for (; n > 0; --n) k.matmul(args, {0, matrix.n_panels()}, {0, kRows});
    return std::uint64_t{std::bit_cast<std::uint32_t>(args.out[0])};
  };
  return rounds_per_second(pool, products) * static_cast<double>(kOutputs * kInputs * kRows);
}

MachineLimits measure_limits(Isa isa, int n_threads) {
  const Kernels& k = kernels_or_error(isa);
  base::Pool pool(n_threads > 0 ? n_threads : base::default_threads(), 1);
  MachineLimits limits{.n_threads = pool.n_threads(), .kernels = k.name};
  const auto of_floats = [&](double (*peak)(std::int64_t n_rounds)) {
    return rounds_per_second(pool, [&](std::int64_t n, int) { return static_cast<std::uint64_t>(peak(n)); });
  };
  limits.multiply_adds_per_second = {
      .int8 = rounds_per_second(pool, [&](std::int64_t n, int) { return k.dot_peak(n); }) *
              k.dot_peak_multiply_adds,
      .f32 = of_floats(k.fma_peak) * k.fma_peak_multiply_adds,
      .bf16 = of_floats(k.pair_peak) * k.pair_peak_multiply_adds};

  const std::int32_t n_tasks = pool.n_threads() * kLimitTasksPerThread;
  std::atomic<std::uint64_t> sink{0};
  const base::Memory memory(kStreamBytes);
  const std::int64_t lines = static_cast<std::int64_t>(kStreamBytes) / kReadUnit;
  const auto part = [&](std::int32_t task) { return lines * task / n_tasks * kReadUnit; };
  pool.parallel_for(n_tasks, [&](std::int32_t task, int) {
    std::memset(memory.data() + part(task), task, to_size(part(task + 1) - part(task)));
  });
  const double read_seconds = best_seconds(pool, n_tasks, [&](std::int32_t task, int) {
    sink += k.read_memory(memory.data() + part(task), part(task + 1) - part(task));
  });
  limits.read_bytes_per_second = static_cast<double>(kStreamBytes) / read_seconds;
  return limits;
}

}  // namespace weft::cpu
