#pragma once
// The roofline of what a context computes: the time below which this machine cannot do it.
#include <map>
#include <optional>
#include <string>

#include "json_output.h"
#include "weft/context.h"
#include "weft/measure.h"

namespace weft::cli {

/// Counts what steps read and multiply at least while it lives, and adds up the least time of each part of
/// the work between two calls of count(): its bytes at the machine's read bandwidth or its products at the
/// peak of its dot products, whichever takes longer.
class Roofline {
 public:
  Roofline(Context& context, const MachineLimits& limits);
  ~Roofline() { context_.set_profile(nullptr); }
  Roofline(const Roofline&) = delete;
  Roofline& operator=(const Roofline&) = delete;

  void count();
  void clear();  ///< Forgets what was counted so far.
  double seconds() const { return seconds_; }
  /// What most of that time is for: "memory" or "compute".
  std::string bound() const { return 2.0 * memory_seconds_ > seconds_ ? "memory" : "compute"; }

 private:
  Context& context_;
  const MachineLimits& limits_;
  Profile profile_;
  double seconds_ = 0.0;
  double memory_seconds_ = 0.0;  // Of those, where memory was the limit.
};

/// Limits by number of threads, each measured once.
class LimitsCache {
 public:
  explicit LimitsCache(CpuIsa isa) : isa_(isa) {}
  const MachineLimits& of(int n_threads);
  Json to_json() const;
  std::string text() const;  ///< A line for each number of threads.

 private:
  CpuIsa isa_;
  std::map<int, MachineLimits> limits_;  // By what was asked for; 0 is all cores.
};

}  // namespace weft::cli
