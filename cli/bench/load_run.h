#pragma once
// Sends the requests of a load to a server and records arrival times.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "options/load_options.h"

namespace weft::cli {

/// One request. Times are in seconds from the load's beginning.
struct LoadRecord {
  double start = 0.0;
  double first = 0.0;  ///< The first content event; 0: none.
  double end = 0.0;
  std::vector<double> gaps;  ///< Between content events.
  std::int64_t n_prompt_tokens = 0, n_tokens = 0;
  std::string error;  ///< Its kind; "" for a complete response.
  std::string detail;

  double first_s() const { return first - start; }
  double total_s() const { return end - start; }
  /// Seconds a token after the first; 0 if there is none.
  double token_s() const;
};

struct LoadResult {
  Arrivals arrivals;
  std::vector<LoadRecord> records;
  double seconds = 0.0;      ///< From the first request to the last end.
  bool interrupted = false;  ///< Unfinished requests are not in the records.
  bool is_lost = false;      ///< The server refused connections, so the load ended early.
};

/// How the caller follows a load, on the thread that runs it.
struct LoadWatch {
  std::function<void(double fraction)> on_progress;
  std::function<bool()> is_stopped;
};

class LoadClient {
 public:
  /// Does not connect yet. Throws Error for an invalid URL.
  explicit LoadClient(const LoadPlan& plan);
  ~LoadClient();

  /// The plan's model, or the first that the server lists. Throws Error if the server lists none or does not
  /// respond.
  const std::string& model() const;
  /// Sends requests to warm up, then runs the load with these arrivals. `series` selects the prompts.
  LoadResult run(const Arrivals& arrivals, int series, const LoadWatch& watch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cli
