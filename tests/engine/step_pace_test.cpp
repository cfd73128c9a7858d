// How the shares of prompts follow what steps take, on machines of a made-up clock.
#include "engine/batching/step_pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace weft::engine {
namespace {

constexpr int kUbatch = 512;

StepPace make_pace(double max_step_ms = 150.0, int n_step_tokens = kUbatch) {
  return {{.n_step_tokens = n_step_tokens, .max_step_ms = max_step_ms}, kUbatch};
}

/// A machine that computes without end: prompts for as long as the pace allows, next to sequences that
/// decode.
struct Machine {
  double fixed_ms = 10.0, row_ms = 0.5;
  int n_decoding = 4;
  /// From the time of the processor, and the clock, to the time that passes.
  std::function<double(double ms, double now)> passes = [](double ms, double) { return ms; };
  double now = 0.0;

  struct Result {
    double rows_per_s, mean_ms;
  };
  Result run(StepPace& pace, int n_steps) {
    const double begin = now;
    int n_rows = 0;
    for (int i = 0; i < n_steps; ++i) {
      const int n = pace.wants_plain_step() ? 0 : pace.prompt_budget(n_decoding);
      const double ms = passes(fixed_ms + row_ms * (n_decoding + n), now);
      pace.add(n_decoding + n, n_decoding, ms, n_decoding);
      now += ms;
      n_rows += n;
    }
    return {1000.0 * n_rows / (now - begin), (now - begin) / n_steps};
  }
  /// What prompts alone have, in batches of the most tokens.
  double best_rows_per_s(double slower = 1.0) const {
    return 1000.0 * kUbatch / (slower * (fixed_ms + row_ms * kUbatch));
  }
};

/// A control group's cpu.max: of each period the process runs so long.
std::function<double(double, double)> throttled(double run_ms, double period_ms) {
  return [=](double ms, double now) {
    double left = ms, at = now;
    while (left > 1e-9) {
      const double in_period = std::fmod(at, period_ms);
      const double runs = std::max(0.0, run_ms - in_period);
      const double piece = std::min(left, runs);
      left -= piece;
      at += left > 1e-9 ? period_ms - in_period : piece;
    }
    return at - now;
  };
}

TEST(StepPace, StepsTakeAboutAsLongAsTheyMay) {
  for (const double max_ms : {50.0, 150.0, 250.0}) {
    StepPace pace = make_pace(max_ms);
    Machine machine;
    machine.run(pace, 100);
    EXPECT_NEAR(machine.run(pace, 500).mean_ms, max_ms, 0.1 * max_ms);
  }
}

TEST(StepPace, WithoutDecodingOnlyTheBatchLimitsPrompts) {
  StepPace pace = make_pace(150.0, 2048);
  EXPECT_EQ(pace.prompt_budget(0), 2048);
  for (int i = 0; i < 50; ++i) pace.add(16, 0, 5000.0, 1.0);
  EXPECT_EQ(pace.prompt_budget(0), 2048);
}

TEST(StepPace, FixedCostsAreNotBookedOnRows) {
  StepPace pace = make_pace();
  for (int i = 0; i < 20; ++i) pace.add(4, 4, 100.0, 4.0);
  for (int i = 0; i < 20; ++i) pace.add(54, 4, 125.0, 4.0);  // 0.5 ms a token.
  EXPECT_NEAR(pace.prompt_budget(4), 200, 2);
}

TEST(StepPace, EncoderInputsTakeTheirWholeTime) {
  StepPace pace = make_pace();
  for (int i = 0; i < 20; ++i) pace.add(4, 4, 100.0, 4.0);
  for (int i = 0; i < 20; ++i) pace.add_source(200, 100.0);  // 0.5 ms a token, without a decode step.
  EXPECT_NEAR(pace.prompt_budget(4), 200, 2);
}

TEST(StepPace, PromptsHaveHalfOfSlowSteps) {
  for (const double fixed_ms : {80.0, 150.0, 400.0}) {
    StepPace pace = make_pace();
    Machine machine{.fixed_ms = fixed_ms};
    machine.run(pace, 100);
    const auto result = machine.run(pace, 500);
    EXPECT_GT(result.rows_per_s, 0.4 * 1000.0 / machine.row_ms * std::min(1.0, kUbatch * 0.5 / fixed_ms));
    EXPECT_LT(result.mean_ms, std::max(150.0, 2.1 * fixed_ms + 5.0));
  }
}

TEST(StepPace, SharesFollowAMachineThatBecomesSlow) {
  StepPace pace = make_pace();
  Machine machine;
  machine.run(pace, 200);
  for (const double slower : {10.0, 30.0, 1.0}) {
    machine.passes = [=](double ms, double) { return slower * ms; };
    machine.run(pace, 3 * 64);  // Steps without prompts come in between.
    EXPECT_GT(machine.run(pace, 500).rows_per_s, 0.4 * machine.best_rows_per_s(slower)) << slower;
  }
}

TEST(StepPace, SharesSurviveAMachineWhoseStepsBecomeSlowOnly) {
  StepPace pace = make_pace();
  Machine machine;
  machine.run(pace, 200);
  machine.fixed_ms = 300.0;  // Neighbours keep threads waiting for each other.
  machine.run(pace, 3 * 64);
  EXPECT_GT(machine.run(pace, 500).rows_per_s, 0.4 * 1000.0 / machine.row_ms);
}

TEST(StepPace, OneStallChangesLittle) {
  StepPace pace = make_pace();
  Machine machine;
  machine.run(pace, 100);
  const int before = pace.prompt_budget(4);
  for (const int n_prompt : {200, 0}) {
    pace.add(4 + n_prompt, 4, 10000.0, 4.0);
    EXPECT_GT(pace.prompt_budget(4), before / 3);
    machine.run(pace, 20);
    EXPECT_GT(pace.prompt_budget(4), before * 3 / 4);
  }
}

TEST(StepPace, ThrottledProcessesKeepTheirShare) {
  for (const double run_ms : {80.0, 50.0, 20.0, 10.0}) {
    StepPace pace = make_pace();
    Machine machine{.passes = throttled(run_ms, 100.0)};
    machine.run(pace, 200);
    const auto result = machine.run(pace, 1000);
    EXPECT_GT(result.rows_per_s, 0.4 * machine.best_rows_per_s(100.0 / run_ms)) << run_ms;
  }
}

TEST(StepPace, NoiseDoesNotTakeTheShareAway) {
  for (const double spread : {0.3, 0.7, 1.2}) {
    StepPace pace = make_pace();
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    Machine machine{.passes = [&](double ms, double) { return ms * std::exp(spread * normal(random)); }};
    machine.run(pace, 200);
    const double mean = std::exp(spread * spread / 2);
    EXPECT_GT(machine.run(pace, 2000).rows_per_s, 0.4 * machine.best_rows_per_s(mean)) << spread;
  }
}

TEST(StepPace, PromptsGoInLargeBatchesWhereThereIsTime) {
  StepPace pace = make_pace(100.0, 2048);
  EXPECT_EQ(pace.prompt_budget(4), 508);  // No step was measured yet.
  EXPECT_EQ(pace.max_rows_behind(100), 512);
  EXPECT_EQ(pace.max_rows_behind(512), 512);
  EXPECT_EQ(pace.max_rows_behind(513), 1024);
  for (int i = 0; i < 50; ++i) {
    pace.add(1000, 0, 120.0, 1.0);  // 0.1 ms a token.
    pace.add(4, 4, 20.0, 4.0);
  }
  EXPECT_NEAR(pace.max_rows_behind(100), 1000, 5);
  EXPECT_EQ(pace.max_rows_behind(1025), 1536);
  EXPECT_NEAR(pace.prompt_budget(4), 800, 5);
  StepPace always_reading = make_pace(100.0, 2048);
  always_reading.add(504, 4, 500.0, 4.0);  // 1 ms a token.
  EXPECT_EQ(always_reading.prompt_budget(4), 100);
  StepPace patient = make_pace(1e9, 2048);
  patient.add(2000, 0, 1.0, 1.0);
  patient.add(4, 4, 1.0, 4.0);
  EXPECT_EQ(patient.prompt_budget(4), 2044);
  EXPECT_EQ(patient.max_rows_behind(100), 2048);
}

TEST(StepPace, DecodingAloneIsMeasuredNowAndThen) {
  StepPace pace = make_pace();
  for (int i = 0; i < 64; ++i) {
    EXPECT_FALSE(pace.wants_plain_step());
    pace.add(100, 4, 100.0, 4.0);
  }
  EXPECT_TRUE(pace.wants_plain_step());
  pace.add(4, 4, 10.0, 4.0);
  EXPECT_FALSE(pace.wants_plain_step());
  for (int i = 0; i < 100; ++i) pace.add(100, 0, 100.0, 0.0);
  EXPECT_FALSE(pace.wants_plain_step());
}

}  // namespace
}  // namespace weft::engine
