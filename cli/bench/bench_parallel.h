#pragma once
// weft bench --parallel: many requests at the same time, served by the batcher.
#include <functional>
#include <string>
#include <vector>

#include "bench/bench_report.h"
#include "bench/bench_roofline.h"
#include "files/json_output.h"
#include "terminal/interrupt.h"
#include "weft/batcher.h"
#include "weft/measure.h"

namespace weft::cli {

struct ParallelTest {
  int n_streams = 1;
  bool shared = false;  ///< One prompt for all, or each its own.
  int n_prompt = 0;
  int n_generate = 0;
};

struct ParallelResult {
  ParallelTest test;
  Samples seconds;  ///< One a repetition.
  /// Tokens a second: of prompts until the last stream has its first token, and of decoding after it.
  Samples prefill, decode;
  Samples decode_per_cpu;  ///< Generated tokens a second of the processor's time.
  int n_prefill_tokens = 0, n_decode_tokens = 0;
  LeastWork prefill_least, decode_least;  ///< A part a step.
  // Of the fastest repetition.
  double first_token_ms = 0.0;  ///< Mean over the streams, since all were submitted.
  int cells_peak = 0;
  /// Share of the decoding time outside kernels: admission, cells, inputs, sampling and delivery.
  double host_fraction = 0.0;
  double host_us_per_step = 0.0;  ///< The batcher's own work: scheduling, sampling, delivery.
};

/// 1, 2, 4, ... up to `n_streams` and that itself.
std::vector<int> doubling(int n_streams);
/// Cells that a test may need.
int cells_needed(const ParallelTest& test);

/// The context has as many sequences and cells as the test needs. A first round warms up and is counted for
/// the roofline. Throws Error kCancelled after Ctrl-C.
ParallelResult run_parallel(Context& context, const ParallelTest& test, int n_repetitions,
                            const InterruptGuard& interrupt, const std::function<void()>& on_round);

/// The steps of a round, before and after all streams have their first token.
struct StagesProfile {
  Profile prefill, decode;
};
/// Of one more round. Throws Error kCancelled after Ctrl-C.
StagesProfile profile_parallel(Context& context, const ParallelTest& test, std::size_t max_spans,
                               const InterruptGuard& interrupt);

/// "np8-shared"
std::string name_of(const ParallelTest& test);
/// The test's fields of a report's row.
Json to_json(const ParallelResult& result, const MachineLimits& limits);
std::vector<Column> parallel_columns();

}  // namespace weft::cli
