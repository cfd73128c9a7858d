// The costs of the thread pool: a phase without work (its barrier), waking, and the balance of work when a
// core is busy with something else.
//
//   pool_lab [threads]
//   pool_lab model
//
// The reference for a phase is std::barrier, which sleeps. The reference for sharing is fixed halves without
// stealing. `model` simulates other machines with pool_model.h.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/cores.h"
#include "base/pool.h"
#include "pool_model.h"

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

/// Nanoseconds of a phase with this number of tasks per thread, of 0.6 us each.
double short_phase_ns(int n_threads, int n_tasks) {
  constexpr int kPhases = 64;
  weft::base::Pool pool(n_threads, kPhases);
  const std::vector<std::int32_t> tasks(kPhases, n_threads * n_tasks);
  double best = 1e9;
  for (int run = 0; run < 200; ++run) {
    const auto begin = Clock::now();
    pool.run(
        tasks,
        [](void*, int, std::int32_t first, std::int32_t end, int) {
          for (; first < end; ++first) work(1);
        },
        nullptr);
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

using weft::lab::Load;
using weft::lab::Machine;
using weft::lab::Outcome;
using weft::lab::PoolModel;
using weft::lab::Scheme;

void print_schemes(const char* title, const Load& load) {
  struct Row {
    const char* name;
    Machine machine;
  };
  const Row rows[] = {
      {"2", {2, 8, 1}},
      {"8", {8, 8, 1}},
      {"16 of one L3", {16, 16, 1}},
      {"16 = 2 x 8", {16, 8, 1}},
      {"64 = 8 x 8", {64, 8, 1}},
      {"64 = 4 x 16", {64, 16, 1}},
      {"56 of one L3, 70 ns", {.n_cores = 56, .group_size = 56, .in_group = 70.0}},
      {"128 = 2 x 8 x 8", {128, 8, 2}},
      {"128 = 2 x 4 x 16", {128, 16, 2}},
  };
  std::printf("\n%s: ns of a phase beyond its tasks (lines moved)\n", title);
  std::printf("%-20s %18s %18s %18s %18s\n", "cores", "a counter a phase", "one group", "groups",
              "groups, anywhere");
  for (const Row& row : rows) {
    const int n_cores = row.machine.n_cores, shared = row.machine.group_size;
    const int n_parts = (shared + weft::base::Cores::kMostGroup - 1) / weft::base::Cores::kMostGroup;
    const int group = std::max((shared + n_parts - 1) / n_parts, weft::base::Cores::kLeastGroup);
    std::printf("%-20s", row.name);
    for (const Scheme& scheme : {Scheme{.per_phase = true}, Scheme{}, Scheme{.group_size = group},
                                 Scheme{.group_size = group, .in_order = false}}) {
      if (scheme.group_size < (1 << 20) && n_cores <= group) continue;
      const Outcome outcome = PoolModel(row.machine, scheme, load).run();
      std::printf(" %10.0f (%5.0f)", outcome.over_ns() / load.n_phases, outcome.transfers);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

/// 8 fast cores alone; with slow ones that have shares like them; with slow ones that help.
void print_slow_cores() {
  const double slownesses[] = {1.5, 2.0, 3.0, 4.0};
  for (const int n_slow : {4, 8, 16}) {
    std::printf(
        "\n8 cores and %d that are slower: time of a phase with equal shares, with helpers, and at best,\n"
        "of the time of 8 alone\n%-24s",
        n_slow, "tasks of a fast core");
    for (const double slowness : slownesses) std::printf("       %3.1fx slower", slowness);
    std::printf("\n");
    for (const int n : {8, 16, 32, 128, 512}) {
      const int n_cores = 8 + n_slow;
      Load load = {.n_phases = 16, .tasks_per_thread = std::max(1, n * 8 / n_cores), .task_ns = 20000.0};
      std::printf("%-24d", load.tasks_per_thread * n_cores / 8);
      for (const double slowness : slownesses) {
        const auto ns = [&](int n_with_shares, bool others_help) {
          load.slowness.assign(8, 1.0);
          load.slowness.resize(static_cast<std::size_t>(n_cores), slowness);
          load.n_with_shares = n_with_shares;
          load.others_help = others_help;
          return PoolModel({n_cores, n_cores, 1}, {}, load).run().run_ns;
        };
        const double alone = ns(8, false);
        std::printf("   %4.2f %4.2f %4.2f", ns(0, false) / alone, ns(8, true) / alone,
                    8.0 / (8.0 + n_slow / slowness));
      }
      std::printf("\n");
    }
  }
}

void print_model() {
  print_schemes("1 task of 1 us a thread", {.n_phases = 16, .tasks_per_thread = 1});
  print_schemes("8 tasks of 1 us a thread", {.n_phases = 16, .tasks_per_thread = 8});
  print_schemes("64 tasks of 2 us a thread", {.n_phases = 16, .tasks_per_thread = 64, .task_ns = 2000.0});
  print_schemes("8 tasks of 1 us a thread, one thread 100 us late",
                {.n_phases = 16, .tasks_per_thread = 8, .late_thread = 1, .late_ns = 100000.0});
  print_slow_cores();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "model") == 0) {
    print_model();
    return 0;
  }
  const int n_threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : weft::base::default_threads();
  std::printf("%d threads\n", n_threads);
  std::printf("an empty phase: %.0f ns; std::barrier: %.0f ns\n", phase_ns(n_threads), barrier_ns(n_threads));
  for (const int n_tasks : {1, 4, 16})
    std::printf("a phase of %d task%s of 0.6 us a thread: %.0f ns\n", n_tasks, n_tasks == 1 ? "" : "s",
                short_phase_ns(n_threads, n_tasks));
  for (const int pause : {0, 100, 1000})
    std::printf("16 us of work a thread, %d us after the last: %.1f us\n", pause,
                run_us(n_threads, std::chrono::microseconds(pause)));
  for (const int n_busy : {0, 1})
    std::printf("100 phases with %d foreign thread%s: taken over %.1f ms, fixed shares %.1f ms\n", n_busy,
                n_busy == 1 ? "" : "s", shared_ms(n_threads, n_busy, true),
                shared_ms(n_threads, n_busy, false));
}
