#pragma once
// Sends the requests of a load to a server, and notes when what came.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "load_options.h"

namespace weft::cli {

/// One request. Times are in seconds from the load's beginning.
struct LoadRecord {
  double start = 0.0;
  double first = 0.0;  ///< The first text; 0: none.
  double end = 0.0;
  std::vector<double> gaps;  ///< Between texts.
  std::int64_t n_prompt_tokens = 0, n_tokens = 0;
  std::string error;  ///< Its kind; "" for a whole answer.
  std::string detail;

  double first_s() const { return first - start; }
  double total_s() const { return end - start; }
  /// Seconds a token behind the first; 0 where there is none.
  double token_s() const;
};

struct LoadResult {
  Arrivals arrivals;
  std::vector<LoadRecord> records;
  double seconds = 0.0;      ///< From the first request to the last end.
  bool interrupted = false;  ///< Requests that were under way are not in the records.
  bool is_lost = false;      ///< The server takes no connections any more, so the load ended early.
};

/// How the caller follows a load, on the thread that runs it.
struct LoadWatch {
  std::function<void(double fraction)> on_progress;
  std::function<bool()> is_stopped;
};

class LoadClient {
 public:
  /// Connects to nothing yet. Throws Error for a URL that is none.
  explicit LoadClient(const LoadPlan& plan);
  ~LoadClient();

  /// The plan's model, or the first that the server lists. Throws Error where it lists none, or does not
  /// answer.
  const std::string& model() const;
  /// The load with these arrivals, behind requests to warm up. `series` says which texts.
  LoadResult run(const Arrivals& arrivals, int series, const LoadWatch& watch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cli
