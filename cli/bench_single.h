#pragma once
// weft bench: one text at a time.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench_profile.h"
#include "bench_report.h"
#include "bench_roofline.h"
#include "interrupt.h"
#include "weft/context.h"
#include "weft/measure.h"

namespace weft::cli {

/// A prompt to read, tokens to generate one by one behind it, both behind `depth` tokens that are in the
/// cache already. Not both 0.
struct SingleTest {
  int n_prompt = 0;
  int n_generate = 0;
  int depth = 0;

  int n_tokens() const { return n_prompt + n_generate; }
  int n_cells() const { return depth + n_tokens(); }
  std::string name() const;  ///< "pp512", "tg128", "pp512+tg128", "tg128 @ d4096"
};

struct SingleResult {
  SingleTest test;
  Samples ms;       ///< One a repetition.
  Samples cpu_ms;   ///< The processor's time of all threads.
  LeastWork least;  ///< A part a step.
};

/// Runs tests in one context, which it has to itself and which has two sequences: one is what was read, the
/// other keeps the `depth` tokens that all repetitions start from.
class SingleBench {
 public:
  SingleBench(Context& context, const InterruptGuard& interrupt);

  /// `on_round` is told of each round: the first, which warms up and is counted for the roofline, and the
  /// measured ones. Throws Error kCancelled after Ctrl-C.
  SingleResult measure(const SingleTest& test, int n_repetitions, const std::function<void()>& on_round);
  /// One more round, with its time taken down.
  Profile profile(const SingleTest& test, std::size_t max_spans);

 private:
  struct Times {
    double ms = 0.0, cpu_ms = 0.0;
  };
  static Token token(const std::vector<Token>& tokens, int i) {
    return tokens[static_cast<std::size_t>(i) % tokens.size()];
  }
  void start_at(int depth);
  void decode();
  Times round(const SingleTest& test, const std::function<void()>& on_step);

  Context& context_;
  const InterruptGuard& interrupt_;
  std::vector<Token> prompt_;   // Random tokens.
  std::vector<Token> written_;  // Those of a text.
  Batch batch_;
  int depth_ = 0;  // What the kept sequence holds.
};

/// The processor's time that this process has used so far, in milliseconds.
double cpu_milliseconds();

/// The test's fields of a report's row.
Json to_json(const SingleResult& result, const MachineLimits& limits);
std::vector<Column> single_columns();

}  // namespace weft::cli
