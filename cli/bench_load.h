#pragma once
// weft bench --serve: the options, and the run from these to the report.
#include <CLI/CLI.hpp>

#include "bench_matrix.h"
#include "load_options.h"

namespace weft::cli {

/// Those that only loads have; behind those of `weft bench` that do not go with a load.
void add_load_options(CLI::App& app, LoadOptions& options);
/// Loads the server and prints the report; returns the exit code. What else the options say is taken from
/// `bench`: the model's name, lengths, the form of output.
int run_load(LoadOptions options, const BenchOptions& bench);

}  // namespace weft::cli
