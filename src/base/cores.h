#pragma once
// The cores that this process may compute on, and the number of threads to use. Both are read from /proc and
// /sys. Their root is a parameter so that tests can use another machine.
#include <filesystem>
#include <optional>
#include <vector>

namespace weft::base {

struct Core {
  std::vector<int> cpus;  ///< Hardware threads that may be used; never empty, ascending.
  int capacity =
      0;           ///< Relative speed (a core type's, or its highest clock); 0 where the system says nothing.
  int node = 0;    ///< Of memory (NUMA).
  int cache = -1;  ///< The L3 that it has, alone or with others; -1 where the system says nothing.
};

struct Cores {
  std::vector<Core> all;  ///< Those that the process may use, by their first CPU. At least one.
  double quota = 0.0;     ///< Cores' worth of time that the control group grants; 0: no limit.

  /// Cores that are fast enough to work in step with the fastest: threads share work evenly, so that a slow
  /// one would hold up the others.
  std::vector<Core> fast() const;
  /// One thread a fast core, within the quota.
  int default_threads() const;
  /// The number of slow cores that may help these threads in large phases (pool.h). It is all of them if
  /// there are as many threads as fast cores and no quota limits both together.
  int helpers(int n_threads) const;
  std::vector<int> nodes() const;  ///< Of memory, ascending.

  /// The number of threads that share a count of completed tasks (pool.h): the fast cores that share an L3. A
  /// group must not be too small to be worth its own count, nor so large that the count's cache line moves
  /// all the time.
  int group_size() const;
  static constexpr int kLeastGroup = 8, kMostGroup = 16;
};

struct CoresSource {
  std::filesystem::path root = "/";
  /// CPUs that the scheduler allows; none: ask the system for this process.
  std::optional<std::vector<int>> affinity = std::nullopt;
};

/// Never throws for what the system does not tell: then each CPU is a core of its own.
Cores read_cores(const CoresSource& source = {});

}  // namespace weft::base
