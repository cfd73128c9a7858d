// Latency and memory of a server's requests, measured on the batcher:
//
//   serving MODEL first-token [LONG_TOKENS [SECONDS]]   time to the first token of short requests at random
//                                                       times during a prompt of LONG_TOKENS, and its delay
//   serving MODEL waiting [N]                           memory of N waiting requests
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "weft/batcher.h"
#include "weft/context.h"
#include "weft/error.h"
#include "weft/model.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<weft::Token> random_prompt(int n, std::mt19937_64& random) {
  std::vector<weft::Token> prompt(static_cast<std::size_t>(n));
  for (weft::Token& token : prompt) token = static_cast<weft::Token>(100 + random() % 20000);
  return prompt;
}

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

/// Short requests of 20 tokens, two a second, each writing 16.
void first_token(const std::shared_ptr<const weft::Model>& model, int n_long, double seconds,
                 double per_second) {
  weft::Context context(model, {.n_ctx = std::max(n_long, 0) + 8192, .n_sequences = 32});
  weft::Batcher batcher(context, {.n_running = 24, .reuse_prefixes = false});
  std::mt19937_64 random(1);
  std::vector<double> first_ms;
  std::int64_t n_short_tokens = 0;
  bool long_done = false;
  double long_seconds = 0.0;
  const auto start = Clock::now();
  if (n_long > 0) {
    weft::RequestParams params;
    params.n_predict = 1;
    params.ignore_end = true;
    params.on_output = [&](const weft::Output& output) {
      if (output.done) long_done = true;
      if (output.done) long_seconds = seconds_since(start);
      return true;
    };
    batcher.submit(random_prompt(n_long, random), params);
  }
  std::exponential_distribution<double> pause(per_second > 0.0 ? per_second : 1e-9);
  double next = pause(random);
  while (seconds_since(start) < seconds && !(per_second == 0.0 && long_done)) {
    for (; seconds_since(start) >= next; next += pause(random)) {
      weft::RequestParams params;
      params.n_predict = 16;
      params.ignore_end = true;
      params.sampler.temperature = 0.0f;
      params.on_output = [&](const weft::Output& output) {
        if (output.done) first_ms.push_back(output.stats.first_token_ms);
        return true;
      };
      batcher.submit(random_prompt(20, random), params);
      n_short_tokens += 20;
    }
    if (!batcher.step()) usleep(500);
  }
  const double took = seconds_since(start);
  const auto n_prompt = static_cast<double>(batcher.stats().n_prompt_tokens);
  std::printf(
      "long prompt %6d  short requests %4zu of %lld  first token p50 %8.1f ms  p99 %8.1f ms  prompts %7.1f "
      "tokens/s%s\n",
      n_long, first_ms.size(), static_cast<long long>(n_short_tokens / 20), percentile(first_ms, 0.5),
      percentile(first_ms, 0.99), n_prompt / took,
      long_done ? (", the long one read after " + std::to_string(long_seconds) + " s").c_str() : "");
}

double resident_mib() {
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void waiting(const std::shared_ptr<const weft::Model>& model, int n) {
  weft::Context context(model, {.n_ctx = 2048, .n_sequences = 1});
  weft::Batcher batcher(context);
  std::mt19937_64 random(1);
  const std::vector<weft::Token> prompt = random_prompt(200, random);
  batcher.submit(prompt, {});
  batcher.step();
  const double before = resident_mib();
  const auto start = Clock::now();
  for (int i = 0; i < n; ++i) batcher.submit(prompt, {});
  std::printf("%d waiting requests of %zu tokens, vocabulary of %d: %.1f MiB, %.2f KiB and %.1f us each\n", n,
              prompt.size(), model->info().n_vocab, resident_mib() - before,
              (resident_mib() - before) * 1024 / n, 1e6 * seconds_since(start) / n);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string what = argc > 2 ? argv[2] : "";
  const auto number = [&](int i, double otherwise) { return argc > i ? std::stod(argv[i]) : otherwise; };
  if (what != "first-token" && what != "waiting") {
    std::fprintf(stderr,
                 "usage: %s MODEL first-token [LONG_TOKENS [SECONDS [SHORT_PER_SECOND]]] | waiting [N]\n",
                 argv[0]);
    return 2;
  }
  const auto model = weft::Model::load(argv[1]);
  if (what == "first-token")
    first_token(model, static_cast<int>(number(3, 0)), number(4, 30), number(5, 2));
  else
    waiting(model, static_cast<int>(number(3, 1000)));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
