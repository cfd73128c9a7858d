#include "backend/remote/memory_speed.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "base/to_size.h"

namespace weft::remote {
namespace {

/// More than most caches hold.
constexpr std::size_t kWords = std::size_t{8} << 20;
constexpr int kMeasurements = 5;

/// Of its own: what else runs on the machine just now does not count.
double seconds_of_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double measure_memory(int n_threads) noexcept try {
  const std::vector<std::uint64_t> memory(kWords, 1);
  const auto n = to_size(std::max(n_threads, 1));
  std::vector<std::uint64_t> sums(n);
  std::vector<double> taken(n);
  const auto read = [&](std::size_t i) {
    const double begin = seconds_of_thread();
    sums[i] +=
        std::accumulate(memory.begin() + static_cast<std::ptrdiff_t>(kWords * i / n),
                        memory.begin() + static_cast<std::ptrdiff_t>(kWords * (i + 1) / n), std::uint64_t{0});
    taken[i] = seconds_of_thread() - begin;
  };
  double best = 0.0;
  for (int t = 0; t < kMeasurements; ++t) {
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < n; ++i) threads.emplace_back([&, i] { read(i); });
      read(0);
    }
    const double slowest = *std::max_element(taken.begin(), taken.end());
    best = std::max(best, static_cast<double>(kWords * sizeof(std::uint64_t)) / std::max(slowest, 1e-6));
  }
  // Unused values would not be read.
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}) == kMeasurements * kWords ? best : 0.0;
} catch (...) {
  return 0.0;
}

}  // namespace weft::remote
