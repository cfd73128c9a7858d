#pragma once
// weft bench: one sequence at a time.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/to_size.h"
#include "bench/bench_profile.h"
#include "bench/bench_report.h"
#include "bench/bench_roofline.h"
#include "terminal/interrupt.h"
#include "weft/context.h"
#include "weft/measure.h"

namespace weft::cli {

/// A prompt to prefill and tokens to decode after it. `depth` tokens are in the cache before both. Not both
/// 0.
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

/// Runs tests in one context, which nothing else uses and which has two sequences: the measured one, and the
/// `depth` tokens that all repetitions start from.
class SingleBench {
 public:
  SingleBench(Context& context, const InterruptGuard& interrupt);

  /// Calls `on_round` after each round: the first one, which warms up and is counted for the roofline, and
  /// the measured ones. Throws Error kCancelled after Ctrl-C.
  SingleResult measure(const SingleTest& test, int n_repetitions, const std::function<void()>& on_round);
  /// Profiles one more round.
  Profile profile(const SingleTest& test, std::size_t max_spans);

 private:
  struct Times {
    double ms = 0.0, cpu_ms = 0.0;
  };
  static Token token(const std::vector<Token>& tokens, int i) { return tokens[to_size(i) % tokens.size()]; }
  void start_at(int depth);
  void decode();
  Times round(const SingleTest& test, const std::function<void()>& on_step);

  Context& context_;
  const InterruptGuard& interrupt_;
  std::vector<Token> prompt_;   // Random tokens.
  std::vector<Token> written_;  // The tokens of kWritten.
  Batch batch_;
  int depth_ = 0;  // Tokens of the kept sequence.
};

/// The processor's time that this process has used so far, in milliseconds.
double cpu_milliseconds();

/// The test's fields of a report's row.
Json to_json(const SingleResult& result, const MachineLimits& limits);
std::vector<Column> single_columns();

}  // namespace weft::cli
