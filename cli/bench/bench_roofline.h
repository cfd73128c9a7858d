#pragma once
// The roofline of a context's steps: the least time that this machine needs.
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "files/json_output.h"
#include "weft/context.h"
#include "weft/measure.h"

namespace weft::cli {

/// The least bytes read and multiplications of a part of the work.
struct LeastPart {
  double bytes = 0.0;
  MultiplyAdds multiply_adds = {};
};

/// The parts of some work, whose least time is known once the limits are.
class LeastWork {
 public:
  void add(const LeastPart& part) { parts_.push_back(part); }
  /// The sum over the parts: of each the bytes at the machine's read bandwidth or the products at the peak of
  /// their kind, whichever takes longer.
  double seconds(const MachineLimits& limits) const;
  /// The cause of most of that time: "memory" or "compute".
  std::string bound(const MachineLimits& limits) const;

 private:
  std::vector<LeastPart> parts_;
};

/// Counts the least bytes and multiplications of a context's steps while it lives.
class WorkCounter {
 public:
  explicit WorkCounter(Context& context);
  ~WorkCounter() { context_.set_profile(nullptr); }
  WorkCounter(const WorkCounter&) = delete;
  WorkCounter& operator=(const WorkCounter&) = delete;

  LeastPart take();  ///< The counts since the last call.

 private:
  Context& context_;
  Profile profile_;
};

/// Limits by number of threads: the best of several measurings, which are spread over the run, as others may
/// disturb any of them.
class LimitsCache {
 public:
  explicit LimitsCache(CpuIsa isa) : isa_(isa) {}
  /// Measured at the first call. The reference stays valid; its values may grow.
  const MachineLimits& of(int n_threads);
  /// From now on products with weights of this type are measured as well.
  void add_products(DType weights, int n_threads);
  /// Measures again, unless the last measurement is recent.
  void measure_again(int n_threads);
  Json to_json() const;
  std::string text() const;  ///< A line for each number of threads.

 private:
  struct OfThreads {
    MachineLimits machine;
    std::map<DType, double> products;  // Multiply-adds per second by type of weights.
  };

  CpuIsa isa_;
  std::map<int, OfThreads> limits_;  // By the requested number of threads; 0 is all cores.
  std::chrono::steady_clock::time_point last_ = {};
};

}  // namespace weft::cli
