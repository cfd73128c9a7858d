// weft bench: measures prefill and decoding speed, compared with the machine's limits.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench_load.h"
#include "bench/bench_matrix.h"
#include "bench/bench_ops.h"
#include "bench/bench_parallel.h"
#include "bench/bench_profile.h"
#include "bench/bench_report.h"
#include "bench/bench_roofline.h"
#include "bench/bench_single.h"
#include "commands/command.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/interrupt.h"
#include "terminal/text_format.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

/// A trace of more than this is more than its viewers take.
constexpr std::size_t kMaxSpans = 1'000'000;
/// The sequences of a context, at least.
constexpr int kLeastSequences = 2;

void add(PlanStats& sum, const PlanStats& stats) {
  const auto steps = static_cast<double>(sum.steps + stats.steps);
  if (steps > 0.0) {
    sum.host_us_per_step = (sum.host_us_per_step * static_cast<double>(sum.steps) +
                            stats.host_us_per_step * static_cast<double>(stats.steps)) /
                           steps;
  }
  sum.compiled += stats.compiled;
  sum.steps += stats.steps;
  sum.steps_unchanged += stats.steps_unchanged;
  sum.steps_shapes += stats.steps_shapes;
  sum.steps_tensors += stats.steps_tensors;
}

/// A test that was measured. Its row is made at the end, when the machine's limits are known best.
struct Finding {
  Json settings;
  const MachineLimits& limits;
  std::function<Json(const MachineLimits&)> result;
  struct Profiled {
    const char* field;  ///< Of the row.
    ProfiledTest test;
  };
  std::vector<Profiled> profiles = {};
};

/// The fields of all rows: the model and the settings of the run.
Json row_of(const ModelInfo& info, const ContextParams& params) {
  return {{"model", fmt::format("{} {}", info.architecture, info.quantisation)},
          {"name", info.name},
          {"size", info.file_bytes},
          {"parameters", info.n_parameters},
          {"threads", params.n_threads},
          {"n_ubatch", params.n_ubatch},
          {"type_k", to_string(params.k_type)},
          {"type_v", to_string(params.v_type)}};
}

/// Types of at least a tenth of a file's weights.
std::vector<DType> common_types(const FileInfo& file) {
  std::map<std::string, double> elements;
  double all = 0.0;
  for (const auto& tensor : file.tensors) {
    double n = 1.0;
    for (const std::int64_t size : tensor.shape) n *= static_cast<double>(size);
    elements[tensor.type] += n;
    all += n;
  }
  std::vector<DType> types;
  for (const auto& [name, n] : elements)
    if (const auto type = dtype_from_name(name); type && n >= 0.1 * all) types.push_back(*type);
  return types;
}

class BenchRun {
 public:
  explicit BenchRun(const BenchOptions& options)
      : options_(options), matrix_(parse_matrix(options)), limits_(options.model.isa) {}

  int run() {
    std::vector<std::string> models = options_.models;
    if (models.empty()) models.push_back(options_.model.model);
    if (options_.profile && options_.format == "csv")
      throw UsageError("--profile needs the output format md, json or jsonl (-o)");
    if (!options_.trace.empty() && !std::ofstream(options_.trace, std::ios::app))
      throw Error(ErrorCode::kIo,
                  fmt::format("cannot write '{}'", options_.trace));  // Before minutes of work.
    Progress bar(options_.talk, "measuring");
    const std::size_t n_tests = matrix_.single.size() + matrix_.parallel.size();
    n_rounds_ =
        static_cast<double>(models.size() * matrix_.settings.size() * n_tests) * (options_.repetitions + 1);
    for (const std::string& name : models) measure(name, bar);
    bar.done();
    print(report());  // Before the trace, for which there may be no room.
    if (!options_.trace.empty()) {
      std::vector<const ProfiledTest*> tests;
      for (const Finding& finding : findings_)
        for (const Finding::Profiled& profiled : finding.profiles) tests.push_back(&profiled.test);
      write_trace(options_.trace, tests);
    }
    return kExitOk;
  }

 private:
  void measure(const std::string& name, Progress& bar) {
    ModelOptions model = options_.model;
    model.model = name;
    // Before the model takes memory, and threads of contexts their time.
    bar.begin("measuring this machine", n_done_ / n_rounds_);
    for (const Matrix::Setting& setting : matrix_.settings) {
      model.n_threads = std::max(model.n_threads, setting.n_threads);
      limits_.of(setting.n_threads);
    }
    ContextOptions expected;
    for (const ParallelTest& test : matrix_.parallel)
      expected.n_texts = std::max(expected.n_texts, test.n_streams);
    expected.n_sequences = std::max(kLeastSequences, expected.n_texts);
    const LoadedModel loaded = load_model(model, options_.talk, interrupt_, expected);
    refuse_source(*loaded.model, "bench");
    for (const DType type : common_types(inspect(loaded.path)))
      for (const Matrix::Setting& setting : matrix_.settings) limits_.add_products(type, setting.n_threads);
    bar.begin("moving weights to large pages", n_done_ / n_rounds_);
    loaded.model->settle();
    const ModelInfo& info = loaded.model->info();
    models_.push_back({{"name", info.name},
                       {"architecture", info.architecture},
                       {"quantisation", info.quantisation},
                       {"parameters", info.n_parameters},
                       {"file_bytes", info.file_bytes},
                       {"load_ms", loaded.load_ms}});
    for (const Matrix::Setting& setting : matrix_.settings) {
      model.n_threads = setting.n_threads;
      ContextParams params = context_params(setting.context, model);
      params.n_sequences = kLeastSequences;
      int n_cells = 0;
      for (const SingleTest& test : matrix_.single) n_cells = std::max(n_cells, test.n_cells());
      for (const ParallelTest& test : matrix_.parallel) {
        n_cells = std::max(n_cells, cells_needed(test));
        params.n_sequences = std::max(params.n_sequences, test.n_streams);
      }
      if (params.n_ctx == 0) params.n_ctx = n_cells;
      Context context(loaded.model, params);
      const CancelOnInterrupt cancels(context);
      measure(context, setting.n_threads, bar);
      add(plans_, context.plan_stats());
    }
  }

  void measure(Context& context, int n_threads, Progress& bar) {
    const auto begin = [&](const std::string& test) {
      bar.begin("measuring " + test, n_done_ / n_rounds_);  // Its first round may take minutes.
    };
    const auto on_round = [&] { bar.update((n_done_ += 1.0) / n_rounds_); };
    const auto add_finding = [&](auto result) {
      limits_.measure_again(n_threads);
      findings_.push_back(
          {row_of(context.model().info(), context.params()), limits_.of(n_threads),
           [result = std::move(result)](const MachineLimits& limits) { return to_json(result, limits); }});
    };
    const bool profiled = options_.profile || !options_.trace.empty();
    const std::size_t max_spans = options_.trace.empty() ? 0 : kMaxSpans;
    const auto add_profile = [&](const char* field, ProfiledTest test) {
      test.test = title(findings_.back().settings) + test.test;
      findings_.back().profiles.push_back({field, std::move(test)});
    };
    SingleBench bench(context, interrupt_);
    for (const SingleTest& test : matrix_.single) {
      begin(test.name());
      add_finding(bench.measure(test, options_.repetitions, on_round));
      if (profiled) add_profile("profile", {test.name(), bench.profile(test, max_spans)});
    }
    for (const ParallelTest& test : matrix_.parallel) {
      begin(name_of(test));
      add_finding(run_parallel(context, test, options_.repetitions, interrupt_, on_round));
      if (!profiled) continue;
      StagesProfile profile = profile_parallel(context, test, max_spans, interrupt_);
      add_profile("prefill_profile", {name_of(test) + " prefill", std::move(profile.prefill)});
      add_profile("decode_profile", {name_of(test) + " decode", std::move(profile.decode)});
    }
  }

  /// The settings that may differ between profiles of one test. Threads are part of each profile.
  std::string title(const Json& settings) const {
    std::string text;
    if (options_.models.size() > 1)
      text += fmt::format("{} ({}), ", settings.at("name").get<std::string>(),
                          settings.at("model").get<std::string>());
    if (!options_.batch_sizes.empty() || !options_.ubatch_sizes.empty())
      text += fmt::format("ubatch {}, ", settings.at("n_ubatch").get<int>());
    if (!options_.k_types.empty()) text += fmt::format("keys {}, ", settings.at("type_k").get<std::string>());
    if (!options_.v_types.empty())
      text += fmt::format("values {}, ", settings.at("type_v").get<std::string>());
    return text;
  }

  Json rows() const {
    Json rows = Json::array();
    for (const Finding& finding : findings_) {
      Json& row = rows.emplace_back(finding.settings);
      row.update(finding.result(finding.limits));
      if (!options_.profile) continue;
      for (const auto& [field, test] : finding.profiles) row[field] = profile_json(test, finding.limits);
    }
    return rows;
  }

  std::string report() const {
    if (options_.format == "csv") return to_csv(rows());
    if (options_.format == "jsonl") return to_jsonl(rows());
    const PlanStats& plans = plans_;
    if (options_.format == "json") {
      Json json;
      json["models"] = models_;
      json["limits"] = limits_.to_json();
      json["results"] = rows();
      json["plans"] = {{"compiled", plans.compiled},
                       {"steps", plans.steps},
                       {"steps_unchanged", plans.steps_unchanged},
                       {"steps_shapes", plans.steps_shapes},
                       {"steps_tensors", plans.steps_tensors},
                       {"host_us_per_step", plans.host_us_per_step}};
      return to_text(json, 2);
    }
    std::string text = to_markdown(rows(), columns()) + "\n" + limits_.text();
    if (options_.profile)
      for (const Finding& finding : findings_)
        for (const Finding::Profiled& profiled : finding.profiles)
          text += profile_text(profiled.test, finding.limits);
    if (options_.plans) {
      text += fmt::format(
          "\nplans compiled: {}; steps: {}, of which {} changed nothing, {} shapes, {} tensors; host: {:.1f} "
          "us "
          "a step\n",
          plans.compiled, plans.steps, plans.steps_unchanged, plans.steps_shapes, plans.steps_tensors,
          plans.host_us_per_step);
    }
    return text;
  }

  /// Settings that are all the default have no column.
  std::vector<Column> columns() const {
    std::vector<Column> columns = {
        text_column("model", "model", false),
        {"size", true, [](const Json& row) { return bytes_text(row.at("size").get<std::uint64_t>()); }},
        {"params", true,
         [](const Json& row) { return count_text(row.at("parameters").get<std::int64_t>()); }},
        text_column("threads", "threads")};
    if (!options_.batch_sizes.empty() || !options_.ubatch_sizes.empty())
      columns.push_back(text_column("ubatch", "n_ubatch"));
    if (!options_.k_types.empty()) columns.push_back(text_column("type_k", "type_k"));
    if (!options_.v_types.empty()) columns.push_back(text_column("type_v", "type_v"));
    const auto more = matrix_.parallel.empty() ? single_columns() : parallel_columns();
    columns.insert(columns.end(), more.begin(), more.end());
    return columns;
  }

  const BenchOptions& options_;
  const Matrix matrix_;
  InterruptGuard interrupt_;
  LimitsCache limits_;
  Json models_ = Json::array();
  std::vector<Finding> findings_;
  PlanStats plans_;
  double n_done_ = 0.0, n_rounds_ = 1.0;
};

/// Measures ops without a model, with each requested number of threads.
int run_ops(const OpsOptions& ops, const BenchOptions& options) {
  InterruptGuard interrupt;
  LimitsCache limits(options.model.isa);
  Json rows = Json::array();
  for (const Matrix::Setting& setting : parse_matrix(options).settings)
    for (Json& row : measure_ops(ops, limits.of(setting.n_threads), options.repetitions, interrupt))
      rows.push_back(std::move(row));
  if (options.format == "csv") {
    print(to_csv(rows));
  } else if (options.format == "jsonl") {
    print(to_jsonl(rows));
  } else if (options.format == "json") {
    Json report;
    report["limits"] = limits.to_json();
    report["results"] = rows;
    print(to_text(report, 2));
  } else {
    print(to_markdown(rows, ops_columns()) + "\n" + limits.text());
  }
  return kExitOk;
}

int run(BenchOptions options, const LoadOptions& load, const OpsOptions& ops) {
  if (options.json) options.format = "json";
  const std::vector<std::string> formats = {"md", "json", "jsonl", "csv"};
  if (std::find(formats.begin(), formats.end(), options.format) == formats.end())
    throw UsageError(
        fmt::format("--output: unknown format '{}'; known are {}", options.format, fmt::join(formats, ", ")));
  if (ops.ops) return run_ops(ops, options);
  if (!ops.filter.empty()) throw UsageError("--filter works only with --ops");
  if (!load.url.empty()) return run_load(load, options);
  if (options.plans && options.format != "md" && options.format != "json")
    throw UsageError("--plans needs the output format md or json (-o)");
  return BenchRun(options).run();
}

void set_parallel(int& n_parallel, const std::string& text) {
  // Without a number CLI11 says "true" or nothing.
  constexpr int kDefault = 32;
  const bool bare = text.empty() || text == "true";
  n_parallel = bare ? kDefault : static_cast<int>(parse_size(text));
  if (n_parallel < 1 || n_parallel > kMaxStreams)
    throw UsageError(fmt::format("--parallel: {} is not from 1 to {}", text, kMaxStreams));
}

std::function<int()> prepare_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  auto load = std::make_shared<LoadOptions>();
  auto ops = std::make_shared<OpsOptions>();
  const std::string group = "Measurement";
  const auto add_list = [&](const std::string& names, std::string& value, const std::string& help) {
    return app.add_option(names, value, help)->type_name("N,...")->group(group);
  };
  add_list(
      "-p,--prompt-size,--n-prompt,--prompt-tokens", options->prompt_sizes,
      "prompt lengths in tokens, one or several: 128,512; 0: no prefill (default 512; 128 with streams)");
  add_list("-n,--generate-size,--n-gen,--predict", options->generate_sizes,
           "numbers of tokens to generate, one or several; 0: no decoding (default 128; 32 with streams)");
  add_repeated(app, "--prompt-generate", options->mixed,
               "prefill PP tokens, then generate TG, as one test; may be given again", "PP,TG")
      ->group(group);
  add_list("-d,--depth,--n-depth", options->depths,
           "numbers of tokens in the cache before a test begins, one or several (default 0)");
  add_size(app, "-r,--repetitions", options->repetitions, {1},
           "repetitions of each test, after a warm-up run (default 5)")
      ->group(group);
  app.add_option_function<std::string>(
         "--parallel", [options](const std::string& text) { set_parallel(options->n_parallel, text); },
         "generate 1, 2, 4, ... up to N sequences at the same time (default 32), with separate prompts and "
         "with a shared one")
      ->type_name("[N]")
      ->expected(0, 1)
      ->group(group);
  add_list("--streams", options->streams,
           "numbers of sequences to generate at the same time, one or several: 8,32");
  add_switch(app, "--shared-prompt", options->shared_prompt, "use the same prompt for all streams")
      ->group(group);

  add_switch(app, "--ops", ops->ops, "measure single ops of typical shapes, without a model")->group(group);
  app.add_option("--filter", ops->filter,
                 "with --ops: measure only ops whose line matches this regular expression")
      ->type_name("REGEX")
      ->group(group);

  add_switch(app, "--plans", options->plans,
             "print how often plans were compiled and reused, and the host's time per step")
      ->group("Output");
  add_switch(app, "--profile", options->profile,
             "run each test once more, and print the time of each kind of op")
      ->group("Output");
  app.add_option("--trace", options->trace,
                 "write what each thread did as a Chrome trace, for ui.perfetto.dev")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("-o,--output", options->format, "format: md, json, jsonl or csv (default md)")
      ->type_name("FORMAT")
      ->group("Output");
  add_switch(app, "--json", options->json, "the same as -o json")->group("Output");

  add_load_options(app, *load);
  for (const char* name : {"--serve", "--prompt-generate", "--parallel", "--streams", "--shared-prompt",
                           "--plans", "--profile", "--trace"})
    app.get_option("--ops")->excludes(app.get_option(name));
  add_model_options(app, options->model);
  add_context_options(app, options->context);
  // Here these take several values.
  for (const char* name : {"--model", "--ctx-size", "--threads", "--batch-size", "--ubatch-size",
                           "--cache-type-k", "--cache-type-v"})
    app.remove_option(app.get_option(name));
  app.remove_option(app.get_option("--source-size"));  // Models that read a source are refused.
  add_repeated(app, "-m,--model", options->models,
               "a GGUF file, or a name (or part of a name) in the model cache; may be given again", "FILE")
      ->group("Model");
  add_size(app, "-c,--ctx-size", options->context.n_ctx, {0},
           "context size in tokens (default: what the tests need)")
      ->group("Context");
  add_list("-t,--threads", options->threads, "numbers of threads, one or several: 1,2 (default: all cores)");
  add_list("-b,--batch-size", options->batch_sizes,
           "numbers of prompt tokens per step, one or several (default 512)");
  add_list("--ubatch-size", options->ubatch_sizes, "as --batch-size; weft uses the smaller of the two");
  for (const auto& [name, value] :
       {std::pair{"--cache-type-k", &options->k_types}, std::pair{"--cache-type-v", &options->v_types}}) {
    app.add_option(name, *value,
                   fmt::format("type of the cache for {}, one or several (default auto: bf16 or f16)",
                               value == &options->k_types ? "keys" : "values"))
        ->type_name("TYPE,...")
        ->group(group);
  }
  add_verbosity_options(app, options->talk);
  add_verbose_option(app, options->talk);
  return [options, load, ops] { return run(*options, *load, *ops); };
}

}  // namespace

const Command kBenchCommand = {
    "bench", "[options]", "measure the speed of prompts and generation",
    "pp512 is the prefill of 512 prompt tokens, tg128 the generation of 128 tokens, and pp512+tg128 is one\n"
    "after the other. '@ d4096' means that 4,096 tokens are already in the cache. Prompts are random\n"
    "tokens, as in llama-bench. Generated tokens are those of a prose text. weft runs all combinations of\n"
    "the options' values. Speeds are means ± standard deviations over the repetitions.\n"
    "\n"
    "'of roofline' compares the speed with the machine's limit. A step takes at least the longer of two\n"
    "times. The first is the time to read the packed weights and the visible cells of the cache once, at\n"
    "the memory bandwidth. The second is the time of the multiplications in matrix products and attention,\n"
    "at the peak for their type: 8-bit integers for quantized weights, floats, or pairs of BF16 for\n"
    "attention with BF16 caches. weft measures these limits with the same threads, at the start and between\n"
    "tests, and uses the best values. A model that fits into the processor's caches may exceed the memory\n"
    "bandwidth.\n"
    "\n"
    "The lines below the table are the speeds of matrix products with operands in the nearest caches, for\n"
    "each type of the model's weights. They limit prefill more than the peak does, because the work on\n"
    "scales shares an execution port with dot products.\n"
    "\n"
    "With --parallel or --streams the batcher serves many sequences together. Prefill counts the prompt\n"
    "tokens computed until all streams have their first token; a shared prompt counts once. Decode counts\n"
    "the tokens generated after that, over all streams. 'on the host' is the share of the decode time\n"
    "outside kernels.\n"
    "\n"
    "In a profile, 'waiting' is the share of the time in which threads were idle: they claimed tasks or\n"
    "waited for other threads.\n"
    "\n"
    "--serve puts load on a server instead: weft's, or another one with OpenAI's API. Prompts are random\n"
    "words, most of one token each; the server counts the tokens. 'First token' is the time from sending a\n"
    "request to its first content, 'between' the time between pieces of content. 'Within limits' counts\n"
    "requests that keep to --slo-ttft and --slo-itl. Ctrl-C stops and reports the finished requests.\n"
    "\n"
    "--ops measures single ops, as graphs of one node. It prints the fastest repetition and its share of\n"
    "the roofline: all operands and the result pass through memory once, and products run at the peak of\n"
    "float multiplications, or of the 8-bit dot product for quantized weights. Operands in the processor's\n"
    "caches may exceed it.\n"
    "\n"
    "Examples:\n"
    "  weft bench\n"
    "  weft bench -m gemma -m smollm -p 128,512 -n 64 -t 1,2 -r 5 --json\n"
    "  weft bench -p 0 -n 64 -d 0,4096 -ctk f16,q8_0\n"
    "  weft bench -p 512 -n 32 --profile --trace trace.json\n"
    "  weft bench --parallel -p 256 -n 64 -r 2\n"
    "  weft bench -npl 8,32 -p 1024 -n 32 -pps\n"
    "  weft bench -np 8 --plans\n"
    "  weft bench -npl 32 --profile\n"
    "  weft bench --ops --filter 'linear.*x 2048' -t 1,2\n"
    "  weft bench --serve http://127.0.0.1:8080 --concurrency 1,8,32 -p 64-512 -n 128\n"
    "  weft bench --serve http://127.0.0.1:8080 --rate 2 --duration 60 --shared-prefix 1024 --slo-ttft 500\n",
    prepare_bench};

}  // namespace weft::cli
