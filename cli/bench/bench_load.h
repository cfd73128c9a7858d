#pragma once
// weft bench --serve: the options, and the run from these to the report.

#include "bench/bench_matrix.h"
#include "options/load_options.h"
#include "options/option_types.h"

namespace weft::cli {

/// Adds the options of load tests. Call it after the `weft bench` options that a load test excludes.
void add_load_options(CLI::App& app, LoadOptions& options);
/// Loads the server and prints the report; returns the exit code. The model's name, lengths and the output
/// format come from `bench`.
int run_load(LoadOptions options, const BenchOptions& bench);

}  // namespace weft::cli
