// weft bench: how fast prompts are read and tokens are generated.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "arguments.h"
#include "command.h"
#include "interrupt.h"
#include "json_output.h"
#include "options.h"
#include "text_format.h"
#include "weft/context.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

struct BenchOptions {
  Talk talk;
  ModelOptions model;
  ContextOptions context;
  std::string prompt_sizes = "512";
  std::string generate_sizes = "128";
  std::string threads;
  int repetitions = 5;
  std::string format = "md";
  bool json = false;
};

struct Result {
  bool prefill = false;
  int n_tokens = 0;
  int n_threads = 0;
  std::vector<double> ms;  // one a repetition

  std::string test() const { return fmt::format("{}{}", prefill ? "pp" : "tg", n_tokens); }
  double min_ms() const { return *std::min_element(ms.begin(), ms.end()); }
  double per_second(double milliseconds) const { return 1000.0 * n_tokens / milliseconds; }
  double mean() const {
    double sum = 0.0;
    for (const double t : ms) sum += per_second(t);
    return sum / static_cast<double>(ms.size());
  }
  double deviation() const {
    if (ms.size() < 2) return 0.0;
    double sum = 0.0;
    for (const double t : ms) sum += (per_second(t) - mean()) * (per_second(t) - mean());
    return std::sqrt(sum / static_cast<double>(ms.size() - 1));
  }
};

std::vector<int> parse_list(const std::string& name, const std::string& text) {
  std::vector<int> values;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    try {
      const std::int64_t value = parse_size(std::string_view(text).substr(begin, end - begin));
      if (value < 0) throw UsageError(fmt::format("{} is negative", value));
      if (value > 0) values.push_back(static_cast<int>(value));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", name, error.what()));
    }
    begin = end + 1;
  }
  return values;
}

class Bench {
 public:
  Bench(Context& context, const InterruptGuard& interrupt) : context_(context), interrupt_(interrupt) {
    // Ids from 0 to n_vocab - 1; which ones does not matter to the speed, but the same ones each time.
    std::mt19937 random(1);
    const int n_vocab = context.model().info().n_vocab;
    tokens_.resize(4096);
    for (Token& token : tokens_) token = static_cast<Token>(random() % static_cast<unsigned>(n_vocab));
  }

  double prefill_ms(int n_tokens) {
    context_.clear();
    batch_.clear();
    for (int i = 0; i < n_tokens; ++i) batch_.add(token(i), 0, i + 1 == n_tokens);
    return timed([&] { decode(); });
  }

  double generate_ms(int n_tokens) {
    context_.clear();
    return timed([&] {
      for (int i = 0; i < n_tokens; ++i) {
        batch_.clear();
        batch_.add(token(i), 0, true);
        decode();
      }
    });
  }

 private:
  Token token(int i) const { return tokens_[static_cast<std::size_t>(i) % tokens_.size()]; }

  template <typename Work>
  static double timed(const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    return elapsed.count();
  }

  void decode() {
    const DecodeStatus status = context_.decode(batch_);
    if (status == DecodeStatus::kCancelled || interrupt_.requested())
      throw Error(ErrorCode::kCancelled, "interrupted");
    if (status != DecodeStatus::kOk)
      throw Error(ErrorCode::kOutOfMemory, "the cache is full; raise --ctx-size");
  }

  Context& context_;
  const InterruptGuard& interrupt_;
  std::vector<Token> tokens_;
  Batch batch_;
};

std::string to_markdown(const std::vector<Result>& results, const ModelInfo& info) {
  std::string out = fmt::format("| {:<30} | {:>10} | {:>8} | {:<7} | {:>7} | {:>8} | {:>18} |\n", "model",
                                "size", "params", "backend", "threads", "test", "tokens/s");
  out +=
      "| :----------------------------- | ---------: | -------: | :------ | ------: | -------: | "
      "-----------------: |\n";
  for (const Result& r : results) {
    out += fmt::format("| {:<30} | {:>10} | {:>8} | {:<7} | {:>7} | {:>8} | {:>18} |\n",
                       fmt::format("{} {}", info.architecture, info.quantisation),
                       bytes_text(static_cast<std::uint64_t>(info.file_bytes)), count_text(info.n_parameters),
                       "cpu", r.n_threads, r.test(), fmt::format("{:.2f} ± {:.2f}", r.mean(), r.deviation()));
  }
  return out;
}

std::string to_csv(const std::vector<Result>& results) {
  std::string out = "test,n_tokens,threads,repetitions,tokens_per_second,deviation,min_ms\n";
  for (const Result& r : results) {
    out += fmt::format("{},{},{},{},{:.3f},{:.3f},{:.4f}\n", r.test(), r.n_tokens, r.n_threads, r.ms.size(),
                       r.mean(), r.deviation(), r.min_ms());
  }
  return out;
}

Json to_json(const std::vector<Result>& results, const LoadedModel& loaded, const PlanStats& plans) {
  const ModelInfo& info = loaded.model->info();
  Json json;
  json["model"] = {{"name", info.name},
                   {"architecture", info.architecture},
                   {"quantisation", info.quantisation},
                   {"parameters", info.n_parameters},
                   {"file_bytes", info.file_bytes}};
  json["load_ms"] = loaded.load_ms;
  json["results"] = Json::array();
  for (const Result& r : results) {
    json["results"].push_back({{"test", r.test()},
                               {"n_tokens", r.n_tokens},
                               {"threads", r.n_threads},
                               {"ms", r.ms},
                               {"min_ms", r.min_ms()},
                               {"tokens_per_second", r.mean()},
                               {"deviation", r.deviation()}});
  }
  json["plans"] = {
      {"compiled", plans.compiled}, {"steps", plans.steps}, {"host_us_per_step", plans.host_us_per_step}};
  return json;
}

int run(BenchOptions options) {
  const std::vector<int> prompts = parse_list("--prompt-size", options.prompt_sizes);
  const std::vector<int> generates = parse_list("--generate-size", options.generate_sizes);
  std::vector<int> threads = options.threads.empty() ? std::vector<int>{options.model.n_threads}
                                                     : parse_list("--threads", options.threads);
  if (prompts.empty() && generates.empty()) throw UsageError("nothing to measure: give -p or -n a size");
  if (threads.empty()) throw UsageError("--threads needs a count");
  if (options.repetitions < 1) throw UsageError("--repetitions must be positive");
  if (options.json) options.format = "json";
  if (options.format != "md" && options.format != "json" && options.format != "csv") {
    throw UsageError(fmt::format("--output: '{}' is none of md, json, csv", options.format));
  }

  InterruptGuard interrupt;
  options.model.n_threads = *std::max_element(threads.begin(), threads.end());
  const LoadedModel loaded = load_model(options.model, options.talk, interrupt);

  ContextParams params = context_params(options.context, options.model);
  if (params.n_ctx == 0) {
    for (const int n : prompts) params.n_ctx = std::max(params.n_ctx, n);
    for (const int n : generates) params.n_ctx = std::max(params.n_ctx, n);
  }

  std::vector<Result> results;
  PlanStats plans;
  Progress bar(options.talk, "measuring");
  const double total =
      static_cast<double>(threads.size() * (prompts.size() + generates.size())) * (options.repetitions + 1);
  double done = 0.0;
  for (const int n_threads : threads) {
    params.n_threads = n_threads;
    Context context(loaded.model, params);
    interrupt.watch(context);
    Bench bench(context, interrupt);
    const auto measure = [&](bool prefill, int n) {
      Result result{prefill, n, context.params().n_threads, {}};
      // The first round warms up.
      for (int i = -1; i < options.repetitions; ++i) {
        const double ms = prefill ? bench.prefill_ms(n) : bench.generate_ms(n);
        if (i >= 0) result.ms.push_back(ms);
        bar.update((done += 1.0) / total);
      }
      results.push_back(std::move(result));
    };
    for (const int n : prompts) measure(true, n);
    for (const int n : generates) measure(false, n);
    plans = context.plan_stats();
    interrupt.unwatch();
  }
  bar.done();

  if (options.format == "json") {
    print(to_text(to_json(results, loaded, plans), 2));
  } else {
    print(options.format == "csv" ? to_csv(results) : to_markdown(results, loaded.model->info()));
  }
  return kExitOk;
}

std::function<int()> prepare(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  const std::string group = "Measurement";
  app.add_option("-p,--prompt-size,--n-prompt", options->prompt_sizes,
                 "tokens of a prompt to read, or several: 128,512; 0: none (default 512)")
      ->type_name("N,...")
      ->group(group);
  app.add_option("-n,--generate-size,--n-gen", options->generate_sizes,
                 "tokens to generate one by one, or several; 0: none (default 128)")
      ->type_name("N,...")
      ->group(group);
  add_size(app, "-r,--repetitions", options->repetitions, "how often, after one round to warm up (default 5)")
      ->group(group);
  app.add_option("-o,--output", options->format, "md, json or csv (default md)")
      ->type_name("FORMAT")
      ->group("Output");
  add_switch(app, "--json", options->json, "the same as -o json")->group("Output");
  add_model_options(app, options->model);
  // Several thread counts here; the shared option takes one.
  app.remove_option(app.get_option("--threads"));
  app.add_option("-t,--threads", options->threads,
                 "threads to compute with, or several: 1,2 (default: all cores)")
      ->type_name("N,...")
      ->group(group);
  add_context_options(app, options->context);
  add_talk_options(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kBenchCommand = {"bench", "[options]", "how fast this machine reads and writes",
                               "pp512 is a prompt of 512 tokens, tg128 the generation of 128 tokens one "
                               "after another, both from an empty\n"
                               "context and with random tokens, as llama-bench has them.\n"
                               "\n"
                               "Examples:\n"
                               "  weft bench\n"
                               "  weft bench -m gemma -p 128,512 -n 64 -t 1,2 -r 5 --json\n",
                               prepare};

}  // namespace weft::cli
