#pragma once
// weft bench: what is asked for on its command line, and the tests and settings that this means.
#include <string>
#include <vector>

#include "bench_parallel.h"
#include "bench_single.h"
#include "options.h"

namespace weft::cli {

inline constexpr int kMaxStreams = 4096;

/// As the command line has it: lists are still text.
struct BenchOptions {
  Talk talk;
  ModelOptions model;
  std::vector<std::string> models;
  ContextOptions context;
  std::string prompt_sizes;    // Empty: 512, or 128 with streams.
  std::string generate_sizes;  // Empty: 128, or 32.
  std::vector<std::string> mixed;
  std::string depths = "0";
  std::string threads, batch_sizes, ubatch_sizes, k_types, v_types;
  int repetitions = 5;
  int n_parallel = 0;  // 0: one text at a time, or `streams`.
  std::string streams;
  bool shared_prompt = false;
  bool plans = false;
  bool profile = false;
  std::string trace;
  std::string plot;
  std::string format = "md";
  bool json = false;
};

/// What is to be measured, checked: tests, and the settings that each is run with.
struct Matrix {
  std::vector<SingleTest> single;
  std::vector<ParallelTest> parallel;

  struct Setting {
    int n_threads = 0;
    ContextOptions context;
  };
  std::vector<Setting> settings;
};

/// Throws UsageError for what makes no sense.
Matrix parse_matrix(const BenchOptions& options);

}  // namespace weft::cli
