#pragma once
// weft bench --parallel: many requests at the same time, served by the batcher.
#include <functional>
#include <string>
#include <vector>

#include "interrupt.h"
#include "json_output.h"
#include "weft/batcher.h"

namespace weft::cli {

struct ParallelTest {
  int n_streams = 1;
  bool shared = false;  ///< One prompt for all, or each its own.
  int n_prompt = 0;
  int n_generate = 0;
};

struct ParallelResult {
  ParallelTest test;
  int n_threads = 0;
  std::vector<double> seconds;  ///< One a repetition; what follows is of the fastest.
  /// Prompt tokens computed until the last stream has its first token, and tokens generated behind that. What
  /// was found in the cache is no speed.
  double prefill_per_second = 0.0;
  double decode_per_second = 0.0;
  double first_token_ms = 0.0;  ///< Mean over the streams, since all were submitted.
  int cells_peak = 0;
  double host_us_per_step = 0.0;  ///< The batcher's own work: choosing, sampling, telling.
};

/// 1, 2, 4, ... streams up to `n_streams` and that itself, without and (from 2) with a shared prompt.
std::vector<ParallelTest> parallel_tests(int n_streams, int n_prompt, int n_generate);
/// Cells that a test may need.
int cells_needed(const ParallelTest& test);

/// The context has as many sequences and cells as the test needs. Throws Error kCancelled after Ctrl-C.
ParallelResult run_parallel(Context& context, const ParallelTest& test, int n_repetitions,
                            const InterruptGuard& interrupt, const std::function<void()>& on_repetition);

std::string to_markdown(const std::vector<ParallelResult>& results, const ModelInfo& info);
std::string to_csv(const std::vector<ParallelResult>& results);
Json to_json(const std::vector<ParallelResult>& results);

}  // namespace weft::cli
