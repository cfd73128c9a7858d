// What the pool of threads costs: a phase without work (its barrier), waking, and how evenly work is shared
// when a core is busy with something else.
//
//   pool_lab [threads]
//
// The reference for a phase is std::barrier, which sleeps; for sharing, fixed halves that nobody takes over.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/pool.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// About a microsecond of arithmetic.
void work(int n) {
  volatile double x = 1.0;
  for (int i = 0; i < n * 200; ++i) x = x * 1.0000001;
}

/// Nanoseconds of an empty phase, in runs of as many phases as a small model's step has.
double phase_ns(int n_threads) {
  constexpr int kPhases = 128;
  weft::base::Pool pool(n_threads, kPhases);
  const std::vector<std::int32_t> tasks(kPhases, n_threads);
  double best = 1e9;
  for (int run = 0; run < 200; ++run) {
    const auto begin = Clock::now();
    pool.run(tasks, [](void*, int, std::int32_t, std::int32_t, int) {}, nullptr);
    best = std::min(best, seconds_since(begin));
  }
  return best / kPhases * 1e9;
}

double barrier_ns(int n_threads) {
  constexpr int kRounds = 2000;
  std::barrier barrier(n_threads);
  std::vector<std::thread> threads;
  const auto rounds = [&] {
    for (int i = 0; i < kRounds; ++i) barrier.arrive_and_wait();
  };
  const auto begin = Clock::now();
  for (int t = 1; t < n_threads; ++t) threads.emplace_back(rounds);
  rounds();
  for (std::thread& thread : threads) thread.join();
  return seconds_since(begin) / kRounds * 1e9;
}

/// Microseconds of a run of one short phase, `pause` after the one before it.
double run_us(int n_threads, std::chrono::microseconds pause) {
  weft::base::Pool pool(n_threads, 1);
  std::vector<double> times;
  for (int run = 0; run < 50; ++run) {
    std::this_thread::sleep_for(pause);
    const auto begin = Clock::now();
    pool.parallel_for(n_threads * 16, [](std::int32_t, int) { work(1); });
    times.push_back(seconds_since(begin));
  }
  std::nth_element(times.begin(), times.begin() + 25, times.end());
  return times[25] * 1e6;
}

/// Milliseconds of 100 phases with work for all threads, while `n_busy` other threads want the cores as well.
double shared_ms(int n_threads, int n_busy, bool take_over) {
  constexpr int kPhases = 100, kTasks = 64;
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < n_busy; ++i)
    busy.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) work(10);
    });
  weft::base::Pool pool(n_threads, kPhases);
  // One large task a thread is a fixed share; small ones can be taken over.
  const std::vector<std::int32_t> tasks(kPhases, take_over ? kTasks : n_threads);
  int size = take_over ? 5 : 5 * kTasks / n_threads;
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    const auto start = Clock::now();
    pool.run(
        tasks,
        [](void* n, int, std::int32_t begin, std::int32_t end, int) {
          for (std::int32_t task = begin; task < end; ++task) work(*static_cast<int*>(n));
        },
        &size);
    best = std::min(best, seconds_since(start));
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  return best * 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  const int n_threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : weft::base::default_threads();
  std::printf("%d threads\n", n_threads);
  std::printf("an empty phase: %.0f ns; std::barrier: %.0f ns\n", phase_ns(n_threads), barrier_ns(n_threads));
  for (const int pause : {0, 100, 1000})
    std::printf("16 us of work a thread, %d us after the last: %.1f us\n", pause,
                run_us(n_threads, std::chrono::microseconds(pause)));
  for (const int n_busy : {0, 1})
    std::printf("100 phases with %d foreign thread%s: taken over %.1f ms, fixed shares %.1f ms\n", n_busy,
                n_busy == 1 ? "" : "s", shared_ms(n_threads, n_busy, true),
                shared_ms(n_threads, n_busy, false));
}
