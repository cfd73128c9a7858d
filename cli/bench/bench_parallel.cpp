#include "bench/bench_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/to_size.h"
#include "bench/bench_single.h"
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
  std::vector<std::vector<Token>> prompts(to_size(test.n_streams));
  for (std::vector<Token>& prompt : prompts) {
    if (test.shared && &prompt != &prompts.front()) {
      prompt = prompts.front();
      continue;
    }
    prompt.resize(to_size(test.n_prompt));
    for (Token& token : prompt) token = static_cast<Token>(random() % static_cast<unsigned>(n_vocab));
  }
  return prompts;
}

/// A round, cut where the last stream has its first token. Tokens found in the cache are not counted.
struct Round {
  double seconds = 0.0, cpu_ms = 0.0;
  double prefill_seconds = 0.0, prefill_cpu_ms = 0.0;
  int n_prefill = 0, n_decode = 0;  // Computed prompt tokens, and tokens generated after the prefill.
  double first_token_ms = 0.0;
  int cells_peak = 0;
  double host_us_per_step = 0.0;
  double decode_kernel_seconds = 0.0;  // Of decode_seconds().

  double decode_seconds() const { return seconds - prefill_seconds; }
};

/// Time in kernels so far.
double kernel_seconds(const Context& context, const Batcher& batcher) {
  const PlanStats plans = context.plan_stats();
  return batcher.stats().decode_seconds - 1e-6 * plans.host_us_per_step * static_cast<double>(plans.steps);
}

/// Called after each step. `was_prefill`: some stream had no first token yet; `will_be`: the same for the
/// next step.
using OnStep = std::function<void(bool was_prefill, bool will_be)>;

Round run_round(Context& context, const ParallelTest& test, const std::vector<std::vector<Token>>& prompts,
                const InterruptGuard& interrupt, const OnStep& on_step) {
  // No step limit: all prompts are prefilled before decoding, so both speeds can be measured.
  constexpr double kNoLimit = 1e9;
  Batcher batcher(context, {.n_running = test.n_streams, .max_step_ms = kNoLimit});
  const auto start = Clock::now();
  const double cpu_start = cpu_milliseconds();
  Round round;
  int n_begun = 0;
  int n_generated = 0;
  for (const std::vector<Token>& prompt : prompts) {
    RequestParams params{.n_predict = test.n_generate, .ignore_end = true};
    params.sampler.temperature = 0.0f;
    params.on_output = [&, begun = false](const Output& output) mutable {
      n_generated += static_cast<int>(output.tokens.size());
      if (!begun && !output.tokens.empty()) {
        begun = true;
        ++n_begun;
        round.first_token_ms += 1e3 * seconds_since(start) / test.n_streams;
      }
      return true;
    };
    batcher.submit(prompt, std::move(params));
  }

  int n_generated_before = 0;
  const auto all_begun = [&] {
    round.prefill_seconds = seconds_since(start);
    round.prefill_cpu_ms = cpu_milliseconds() - cpu_start;
    n_generated_before = n_generated;
    round.decode_kernel_seconds = -kernel_seconds(context, batcher);
  };
  while (batcher.step()) {
    if (interrupt.requested()) throw Error(ErrorCode::kCancelled, "interrupted");
    const bool prefill = round.prefill_seconds == 0.0;
    if (prefill && n_begun == test.n_streams) all_begun();
    on_step(prefill, round.prefill_seconds == 0.0);
  }
  if (round.prefill_seconds == 0.0) all_begun();  // One token each: the last step was the prompts'.
  round.seconds = seconds_since(start);
  round.cpu_ms = cpu_milliseconds() - cpu_start;
  round.decode_kernel_seconds += kernel_seconds(context, batcher);
  const BatcherStats stats = batcher.stats();
  round.n_prefill = static_cast<int>(stats.n_prompt_tokens);
  round.n_decode = n_generated - n_generated_before;
  round.cells_peak = stats.cells_peak;
  round.host_us_per_step = 1e6 * per_second(stats.host_seconds, static_cast<double>(stats.n_steps));
  return round;
}

}  // namespace

std::vector<int> doubling(int n_streams) {
  std::vector<int> counts;
  for (int n = 1; n < n_streams; n *= 2) counts.push_back(n);
  counts.push_back(n_streams);
  return counts;
}

int cells_needed(const ParallelTest& test) {
  constexpr int kPage = 64;  // A shared page is copied where streams diverge.
  return test.n_streams * (test.n_prompt + test.n_generate + kPage);
}

ParallelResult run_parallel(Context& context, const ParallelTest& test, int n_repetitions,
                            const InterruptGuard& interrupt, const std::function<void()>& on_round) {
  const auto prompts = random_prompts(test, context.model().info().n_vocab);
  ParallelResult result{.test = test};
  {
    WorkCounter counter(context);
    run_round(context, test, prompts, interrupt, [&](bool prefill, bool) {
      (prefill ? result.prefill_least : result.decode_least).add(counter.take());
    });
  }
  on_round();
  for (int i = 0; i < n_repetitions; ++i) {
    const Round round = run_round(context, test, prompts, interrupt, [](bool, bool) {});
    if (result.seconds.values.empty() || round.seconds < result.seconds.min()) {
      result.first_token_ms = round.first_token_ms;
      result.cells_peak = round.cells_peak;
      result.host_us_per_step = round.host_us_per_step;
      if (round.n_decode > 0)
        result.host_fraction = 1.0 - round.decode_kernel_seconds / round.decode_seconds();
    }
    result.n_prefill_tokens = round.n_prefill;
    result.n_decode_tokens = round.n_decode;
    result.seconds.values.push_back(round.seconds);
    result.prefill.values.push_back(per_second(round.n_prefill, round.prefill_seconds));
    result.decode.values.push_back(per_second(round.n_decode, round.decode_seconds()));
    result.decode_per_cpu.values.push_back(
        per_second(round.n_decode, 1e-3 * (round.cpu_ms - round.prefill_cpu_ms)));
    on_round();
  }
  return result;
}

StagesProfile profile_parallel(Context& context, const ParallelTest& test, std::size_t max_spans,
                               const InterruptGuard& interrupt) {
  StagesProfile result;
  result.prefill.max_spans = result.decode.max_spans = max_spans;
  context.set_profile(&result.prefill);
  run_round(context, test, random_prompts(test, context.model().info().n_vocab), interrupt,
            [&](bool was_prefill, bool will_be) {
              if (was_prefill && !will_be) context.set_profile(&result.decode);
            });
  context.set_profile(nullptr);
  return result;
}

std::string name_of(const ParallelTest& test) {
  return fmt::format("np{}-{}", test.n_streams, test.shared ? "shared" : "own");
}

Json to_json(const ParallelResult& r, const MachineLimits& limits) {
  const auto fraction = [&](const Samples& speed, const LeastWork& least, double n) -> Json {
    const double seconds = least.seconds(limits);
    return seconds > 0.0 && n > 0.0 ? Json(speed.mean() * seconds / n) : Json(nullptr);
  };
  return {{"test", name_of(r.test)},
          {"streams", r.test.n_streams},
          {"shared", r.test.shared},
          {"prompts", fmt::format("{} {}", r.test.n_prompt, r.test.shared ? "shared" : "own")},
          {"n_prompt", r.test.n_prompt},
          {"n_generate", r.test.n_generate},
          {"prefill_tokens_per_second", r.prefill.mean()},
          {"prefill_deviation", r.prefill.deviation()},
          {"prefill_roofline_fraction", fraction(r.prefill, r.prefill_least, r.n_prefill_tokens)},
          {"decode_tokens_per_second", r.decode.mean()},
          {"decode_deviation", r.decode.deviation()},
          {"decode_roofline_fraction", fraction(r.decode, r.decode_least, r.n_decode_tokens)},
          {"decode_tokens_per_cpu_second", r.decode_per_cpu.mean()},
          {"first_token_ms", r.first_token_ms},
          {"cells_peak", r.cells_peak},
          {"host_fraction", r.host_fraction > 0.0 ? Json(r.host_fraction) : Json(nullptr)},
          {"batcher_us_per_step", r.host_us_per_step},
          {"seconds", r.seconds.values}};
}

std::vector<Column> parallel_columns() {
  return {text_column("streams", "streams"),
          text_column("prompts", "prompts", false),
          text_column("generate", "n_generate"),
          spread_column("prefill t/s", "prefill_tokens_per_second", "prefill_deviation"),
          percent_column("of roofline", "prefill_roofline_fraction"),
          spread_column("decode t/s", "decode_tokens_per_second", "decode_deviation"),
          percent_column("of roofline", "decode_roofline_fraction"),
          number_column("first token ms", "first_token_ms", 1),
          percent_column("on the host", "host_fraction"),
          text_column("cells", "cells_peak")};
}

}  // namespace weft::cli
