#pragma once
// weft bench: its options, and the tests and settings that they select.
#include <string>
#include <vector>

#include "bench/bench_parallel.h"
#include "bench/bench_single.h"
#include "options/options.h"

namespace weft::cli {

inline constexpr int kMaxStreams = 4096;

/// As given on the command line: lists are not parsed yet.
struct BenchOptions {
  Verbosity talk;
  ModelOptions model;
  std::vector<std::string> models;
  ContextOptions context;
  std::string prompt_sizes;    // Empty: 512, or 128 with streams.
  std::string generate_sizes;  // Empty: 128, or 32.
  std::vector<std::string> mixed;
  std::string depths = "0";
  std::string threads, batch_sizes, ubatch_sizes, k_types, v_types;
  int repetitions = 5;
  int n_parallel = 0;  // 0: one sequence, or `streams`.
  std::string streams;
  bool shared_prompt = false;
  bool plans = false;
  bool profile = false;
  std::string trace;
  std::string format = "md";
  bool json = false;
};

/// The validated tests, and the settings that each runs with.
struct Matrix {
  std::vector<SingleTest> single;
  std::vector<ParallelTest> parallel;

  struct Setting {
    int n_threads = 0;
    ContextOptions context;
  };
  std::vector<Setting> settings;
};

/// Throws UsageError for invalid or contradictory options.
Matrix parse_matrix(const BenchOptions& options);

}  // namespace weft::cli
