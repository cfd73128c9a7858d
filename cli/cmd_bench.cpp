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
#include "bench_parallel.h"
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
  std::string prompt_sizes;    // Empty: 512, or 128 with --parallel.
  std::string generate_sizes;  // Empty: 128, or 32.
  std::string threads;
  int repetitions = 5;
  int n_parallel = 0;  // 0: one text at a time.
  bool plans = false;
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

Json to_json(const std::vector<Result>& results) {
  Json json = Json::array();
  for (const Result& r : results) {
    json.push_back({{"test", r.test()},
                    {"n_tokens", r.n_tokens},
                    {"threads", r.n_threads},
                    {"ms", r.ms},
                    {"min_ms", r.min_ms()},
                    {"tokens_per_second", r.mean()},
                    {"deviation", r.deviation()}});
  }
  return json;
}

Json report(Json results, const LoadedModel& loaded, const PlanStats& plans) {
  const ModelInfo& info = loaded.model->info();
  Json json;
  json["model"] = {{"name", info.name},
                   {"architecture", info.architecture},
                   {"quantisation", info.quantisation},
                   {"parameters", info.n_parameters},
                   {"file_bytes", info.file_bytes}};
  json["load_ms"] = loaded.load_ms;
  json["results"] = std::move(results);
  json["plans"] = {{"compiled", plans.compiled},
                   {"steps", plans.steps},
                   {"steps_unchanged", plans.steps_unchanged},
                   {"steps_shapes", plans.steps_shapes},
                   {"steps_tensors", plans.steps_tensors},
                   {"host_us_per_step", plans.host_us_per_step}};
  return json;
}

std::string plans_text(const PlanStats& plans) {
  return fmt::format(
      "\nplans compiled: {}; steps: {}, of which {} changed nothing, {} shapes, {} tensors; host: {:.1f} us "
      "a step\n",
      plans.compiled, plans.steps, plans.steps_unchanged, plans.steps_shapes, plans.steps_tensors,
      plans.host_us_per_step);
}

/// What is to be measured, checked.
struct Sizes {
  std::vector<int> prompts;
  std::vector<int> generates;
  std::vector<int> threads;
};

Sizes parse_sizes(const BenchOptions& options) {
  const bool parallel = options.n_parallel > 0;
  const auto or_default = [](const std::string& text, const char* value) {
    return text.empty() ? value : text;
  };
  Sizes sizes;
  sizes.prompts = parse_list("--prompt-size", or_default(options.prompt_sizes, parallel ? "128" : "512"));
  sizes.generates =
      parse_list("--generate-size", or_default(options.generate_sizes, parallel ? "32" : "128"));
  sizes.threads = options.threads.empty() ? std::vector<int>{options.model.n_threads}
                                          : parse_list("--threads", options.threads);
  if (sizes.prompts.empty() && sizes.generates.empty())
    throw UsageError("nothing to measure: give -p or -n a size");
  if (parallel && (sizes.prompts.empty() || sizes.generates.empty()))
    throw UsageError("--parallel needs a prompt and tokens to generate: give -p and -n sizes above 0");
  if (sizes.threads.empty()) throw UsageError("--threads needs a count");
  return sizes;
}

/// One text at a time.
std::vector<Result> measure_single(const BenchOptions& options, const Sizes& sizes, const LoadedModel& loaded,
                                   InterruptGuard& interrupt, PlanStats& plans) {
  ContextParams params = context_params(options.context, options.model);
  if (params.n_ctx == 0) {
    for (const int n : sizes.prompts) params.n_ctx = std::max(params.n_ctx, n);
    for (const int n : sizes.generates) params.n_ctx = std::max(params.n_ctx, n);
  }
  std::vector<Result> results;
  Progress bar(options.talk, "measuring");
  const std::size_t n_tests = sizes.threads.size() * (sizes.prompts.size() + sizes.generates.size());
  const double total = static_cast<double>(n_tests) * (options.repetitions + 1);
  double done = 0.0;
  for (const int n_threads : sizes.threads) {
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
    for (const int n : sizes.prompts) measure(true, n);
    for (const int n : sizes.generates) measure(false, n);
    plans = context.plan_stats();
    interrupt.unwatch();
  }
  return results;
}

/// Many at a time.
std::vector<ParallelResult> measure_parallel(const BenchOptions& options, const Sizes& sizes,
                                             const LoadedModel& loaded, InterruptGuard& interrupt,
                                             PlanStats& plans) {
  std::vector<ParallelTest> tests;
  for (const int n_prompt : sizes.prompts) {
    for (const int n_generate : sizes.generates) {
      const auto more = parallel_tests(options.n_parallel, n_prompt, n_generate);
      tests.insert(tests.end(), more.begin(), more.end());
    }
  }
  ContextParams params = context_params(options.context, options.model);
  params.n_sequences = options.n_parallel;
  if (params.n_ctx == 0)
    for (const ParallelTest& test : tests) params.n_ctx = std::max(params.n_ctx, cells_needed(test));
  std::vector<ParallelResult> results;
  Progress bar(options.talk, "measuring");
  double total = 0.0;
  for (const ParallelTest& test : tests) total += test.n_streams;
  total *= static_cast<double>(sizes.threads.size()) * options.repetitions;
  double done = 0.0;
  for (const int n_threads : sizes.threads) {
    params.n_threads = n_threads;
    Context context(loaded.model, params);
    interrupt.watch(context);
    run_parallel(context, tests.front(), 1, interrupt, [] {});  // Warms up.
    for (const ParallelTest& test : tests) {
      const auto on_repetition = [&] { bar.update((done += test.n_streams) / total); };
      results.push_back(run_parallel(context, test, options.repetitions, interrupt, on_repetition));
    }
    plans = context.plan_stats();
    interrupt.unwatch();
  }
  return results;
}

int run(BenchOptions options) {
  const Sizes sizes = parse_sizes(options);
  if (options.repetitions < 1) throw UsageError("--repetitions must be positive");
  if (options.json) options.format = "json";
  if (options.format != "md" && options.format != "json" && options.format != "csv") {
    throw UsageError(fmt::format("--output: '{}' is none of md, json, csv", options.format));
  }
  if (options.plans && options.format == "csv") throw UsageError("--plans goes with md and json");

  InterruptGuard interrupt;
  options.model.n_threads = *std::max_element(sizes.threads.begin(), sizes.threads.end());
  const LoadedModel loaded = load_model(options.model, options.talk, interrupt);

  PlanStats plans;
  std::string table;
  Json json;
  if (options.n_parallel > 0) {
    const auto results = measure_parallel(options, sizes, loaded, interrupt, plans);
    table = options.format == "csv" ? to_csv(results) : to_markdown(results, loaded.model->info());
    json = to_json(results);
  } else {
    const auto results = measure_single(options, sizes, loaded, interrupt, plans);
    table = options.format == "csv" ? to_csv(results) : to_markdown(results, loaded.model->info());
    json = to_json(results);
  }
  if (options.format == "json") {
    print(to_text(report(std::move(json), loaded, plans), 2));
  } else {
    print(options.plans ? table + plans_text(plans) : table);
  }
  return kExitOk;
}

void set_parallel(int& n_parallel, const std::string& text) {
  // Without a number CLI11 says "true" or nothing.
  constexpr int kDefault = 32;
  constexpr int kMax = 4096;
  const bool bare = text.empty() || text == "true";
  n_parallel = bare ? kDefault : static_cast<int>(parse_size(text));
  if (n_parallel < 1 || n_parallel > kMax)
    throw UsageError(fmt::format("--parallel: {} is not 1 to {}", text, kMax));
}

std::function<int()> prepare(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  const std::string group = "Measurement";
  app.add_option(
         "-p,--prompt-size,--n-prompt", options->prompt_sizes,
         "tokens of a prompt to read, or several: 128,512; 0: none (default 512; 128 with --parallel)")
      ->type_name("N,...")
      ->group(group);
  app.add_option("-n,--generate-size,--n-gen", options->generate_sizes,
                 "tokens to generate one by one, or several; 0: none (default 128; 32 with --parallel)")
      ->type_name("N,...")
      ->group(group);
  add_size(app, "-r,--repetitions", options->repetitions, "how often, after one round to warm up (default 5)")
      ->group(group);
  app.add_option_function<std::string>(
         "--parallel", [options](const std::string& text) { set_parallel(options->n_parallel, text); },
         "serve 1, 2, 4, ... up to N texts at the same time (default 32), each with its own prompt and all "
         "with one")
      ->type_name("[N]")
      ->expected(0, 1)
      ->group(group);
  add_switch(app, "--plans", options->plans,
             "say how often plans were compiled and reused, and what steps cost")
      ->group("Output");
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

const Command kBenchCommand = {
    "bench", "[options]", "how fast this machine reads and writes",
    "pp512 is a prompt of 512 tokens, tg128 the generation of 128 tokens one "
    "after another, both from an empty\n"
    "context and with random tokens, as llama-bench has them.\n"
    "\n"
    "With --parallel the batcher serves many texts together. Prefill is what was computed of\n"
    "prompts until all have their first token (of a shared prompt only once), decode what\n"
    "is generated behind that, all texts taken together.\n"
    "\n"
    "Examples:\n"
    "  weft bench\n"
    "  weft bench -m gemma -p 128,512 -n 64 -t 1,2 -r 5 --json\n"
    "  weft bench --parallel -p 256 -n 64 -r 2\n"
    "  weft bench -np 8 --plans\n",
    prepare};

}  // namespace weft::cli
