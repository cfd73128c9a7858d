#pragma once
// weft bench --ops: single ops of typical shapes, compared with this machine's limits.
#include <string>

#include "bench/bench_report.h"
#include "bench/op_shapes.h"
#include "terminal/interrupt.h"
#include "weft/measure.h"

namespace weft::cli {

struct OpsOptions {
  bool ops = false;
  std::string filter;  // A regular expression. Empty: all.
};

/// Measures the shapes whose names fit the filter, with each number of threads that `limits` are given for,
/// and returns a row for each. Throws UsageError if no shape matches, Error kCancelled after Ctrl-C.
Json measure_ops(const OpsOptions& options, const MachineLimits& limits, int n_repetitions,
                 const InterruptGuard& interrupt);
std::vector<Column> ops_columns();

}  // namespace weft::cli
