#include "bench_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "weft/error.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double per_second(double n, double seconds) { return seconds > 0.0 ? n / seconds : 0.0; }

/// The same random prompts each time, one for each stream.
std::vector<std::vector<Token>> random_prompts(const ParallelTest& test, int n_vocab) {
  std::mt19937 random(1);
  std::vector<std::vector<Token>> prompts(static_cast<std::size_t>(test.n_streams));
  for (std::vector<Token>& prompt : prompts) {
    if (test.shared && &prompt != &prompts.front()) {
      prompt = prompts.front();
      continue;
    }
    prompt.resize(static_cast<std::size_t>(test.n_prompt));
    for (Token& token : prompt) token = static_cast<Token>(random() % static_cast<unsigned>(n_vocab));
  }
  return prompts;
}

struct Round {
  double seconds = 0.0;
  ParallelResult figures;
};

Round run_round(Context& context, const ParallelTest& test, const std::vector<std::vector<Token>>& prompts,
                const InterruptGuard& interrupt) {
  // Prompts before answers, so that the two speeds can be told apart.
  constexpr double kNoLimit = 1e9;
  Batcher batcher(context, {.n_running = test.n_streams, .max_step_ms = kNoLimit});
  const auto start = Clock::now();
  int n_begun = 0;
  int n_generated = 0;
  double first_token_ms = 0.0;
  for (const std::vector<Token>& prompt : prompts) {
    RequestParams params{.n_predict = test.n_generate, .ignore_end = true};
    params.sampler.temperature = 0.0f;
    params.on_output = [&, begun = false](const Output& output) mutable {
      n_generated += static_cast<int>(output.tokens.size());
      if (!begun && !output.tokens.empty()) {
        begun = true;
        ++n_begun;
        first_token_ms += 1e3 * seconds_since(start);
      }
      return true;
    };
    batcher.submit(prompt, std::move(params));
  }

  double prefill_seconds = 0.0;
  int n_generated_before = 0;
  while (batcher.step()) {
    if (interrupt.requested()) throw Error(ErrorCode::kCancelled, "interrupted");
    if (prefill_seconds == 0.0 && n_begun == test.n_streams) {
      prefill_seconds = seconds_since(start);
      n_generated_before = n_generated;
    }
  }
  Round round;
  round.seconds = seconds_since(start);
  if (prefill_seconds == 0.0) {  // One token each: the last step was the prompts'.
    prefill_seconds = round.seconds;
    n_generated_before = n_generated;
  }
  const BatcherStats stats = batcher.stats();
  ParallelResult& r = round.figures;
  r.prefill_per_second = per_second(static_cast<double>(stats.n_prompt_tokens), prefill_seconds);
  r.decode_per_second = per_second(n_generated - n_generated_before, round.seconds - prefill_seconds);
  r.first_token_ms = first_token_ms / test.n_streams;
  r.cells_peak = stats.cells_peak;
  r.host_us_per_step = 1e6 * per_second(stats.host_seconds, static_cast<double>(stats.n_steps));
  return round;
}

}  // namespace

std::vector<ParallelTest> parallel_tests(int n_streams, int n_prompt, int n_generate) {
  std::vector<ParallelTest> tests;
  for (int n = 1;; n = std::min(2 * n, n_streams)) {
    tests.push_back({n, false, n_prompt, n_generate});
    if (n > 1) tests.push_back({n, true, n_prompt, n_generate});
    if (n == n_streams) return tests;
  }
}

int cells_needed(const ParallelTest& test) {
  constexpr int kPage = 64;  // A shared page is copied where streams part within it.
  return test.n_streams * (test.n_prompt + test.n_generate + kPage);
}

ParallelResult run_parallel(Context& context, const ParallelTest& test, int n_repetitions,
                            const InterruptGuard& interrupt, const std::function<void()>& on_repetition) {
  const auto prompts = random_prompts(test, context.model().info().n_vocab);
  ParallelResult result;
  std::vector<double> seconds;
  for (int i = 0; i < n_repetitions; ++i) {
    const Round round = run_round(context, test, prompts, interrupt);
    if (seconds.empty() || round.seconds < *std::min_element(seconds.begin(), seconds.end()))
      result = round.figures;
    seconds.push_back(round.seconds);
    on_repetition();
  }
  result.test = test;
  result.n_threads = context.params().n_threads;
  result.seconds = std::move(seconds);
  return result;
}

std::string to_markdown(const std::vector<ParallelResult>& results, const ModelInfo& info) {
  std::string out = fmt::format(
      "| {:<20} | {:>7} | {:>7} | {:<11} | {:>8} | {:>11} | {:>10} | {:>14} | {:>7} |\n", "model", "threads",
      "streams", "prompts", "generate", "prefill t/s", "decode t/s", "first token ms", "cells");
  out +=
      "| :------------------- | ------: | ------: | :---------- | -------: | ----------: | ---------: | "
      "-------------: | ------: |\n";
  for (const ParallelResult& r : results) {
    out += fmt::format(
        "| {:<20} | {:>7} | {:>7} | {:<11} | {:>8} | {:>11.1f} | {:>10.1f} | {:>14.1f} | {:>7} |\n",
        fmt::format("{} {}", info.architecture, info.quantisation), r.n_threads, r.test.n_streams,
        fmt::format("{} {}", r.test.n_prompt, r.test.shared ? "shared" : "own"), r.test.n_generate,
        r.prefill_per_second, r.decode_per_second, r.first_token_ms, r.cells_peak);
  }
  return out;
}

std::string to_csv(const std::vector<ParallelResult>& results) {
  std::string out =
      "threads,streams,shared,n_prompt,n_generate,repetitions,min_seconds,prefill_per_second,decode_per_"
      "second,"
      "first_token_ms,cells_peak\n";
  for (const ParallelResult& r : results) {
    out += fmt::format("{},{},{},{},{},{},{:.4f},{:.3f},{:.3f},{:.3f},{}\n", r.n_threads, r.test.n_streams,
                       r.test.shared ? 1 : 0, r.test.n_prompt, r.test.n_generate, r.seconds.size(),
                       *std::min_element(r.seconds.begin(), r.seconds.end()), r.prefill_per_second,
                       r.decode_per_second, r.first_token_ms, r.cells_peak);
  }
  return out;
}

Json to_json(const std::vector<ParallelResult>& results) {
  Json json = Json::array();
  for (const ParallelResult& r : results) {
    json.push_back({{"test", fmt::format("np{}-{}", r.test.n_streams, r.test.shared ? "shared" : "own")},
                    {"streams", r.test.n_streams},
                    {"shared", r.test.shared},
                    {"n_prompt", r.test.n_prompt},
                    {"n_generate", r.test.n_generate},
                    {"threads", r.n_threads},
                    {"seconds", r.seconds},
                    {"prefill_tokens_per_second", r.prefill_per_second},
                    {"decode_tokens_per_second", r.decode_per_second},
                    {"first_token_ms", r.first_token_ms},
                    {"cells_peak", r.cells_peak},
                    {"batcher_us_per_step", r.host_us_per_step}});
  }
  return json;
}

}  // namespace weft::cli
