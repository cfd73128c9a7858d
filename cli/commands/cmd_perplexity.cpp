// weft perplexity: computes the perplexity of a model and its distance from a reference.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/to_size.h"
#include "commands/command.h"
#include "files/json_output.h"
#include "files/text_input.h"
#include "options/arguments.h"
#include "options/options.h"
#include "quality/choice_score.h"
#include "quality/logit_file.h"
#include "quality/perplexity.h"
#include "quality/statistics.h"
#include "terminal/interrupt.h"
#include "terminal/text_format.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr int kMostTasks = 1 << 30;

struct PerplexityOptions {
  Verbosity talk;
  ModelOptions model;
  ContextOptions context;
  std::string file;
  std::string save_logits;
  std::string base;
  int n_ctx = 512;
  bool sets_n_ctx = false;
  int n_batch = 2048;
  int n_chunks = -1;  // Below 1: all.
  bool hellaswag = false, winogrande = false, multiple_choice = false;
  int hellaswag_tasks = 400, winogrande_tasks = 0, multiple_choice_tasks = 0;
  bool json = false;
};

struct Measured {
  int n_chunks = 0;
  double seconds = 0.0;
  std::vector<double> losses;       // -log of each token's probability.
  std::vector<double> base_losses;  // The reference's losses, if there is one, like the fields below:
  std::vector<double> divergences;
  std::vector<double> differences;  // Of the tokens' probabilities.
  std::vector<double> same_top;     // 1 or 0.
};

void compare(std::span<const float> base, const ScoredRow& row, double log_sum_exp, Measured& to) {
  const auto best = [](std::span<const float> numbers) {
    return std::max_element(numbers.begin(), numbers.end()) - numbers.begin();
  };
  const double base_log = base[to_size(row.next)];
  to.base_losses.push_back(-base_log);
  to.divergences.push_back(divergence(base, row.logits, log_sum_exp));
  to.differences.push_back(std::exp(row.log_probability) - std::exp(base_log));
  to.same_top.push_back(best(base) == best(row.logits) ? 1.0 : 0.0);
}

Json to_json(const Estimate& estimate) { return {{"value", estimate.value}, {"error", estimate.error}}; }

// A perplexity is e^loss, so its standard error is the loss's error times e^loss.
Estimate perplexity_of(const std::vector<double>& losses) {
  const Estimate loss = mean_of(losses);
  return {std::exp(loss.value), std::exp(loss.value) * loss.error};
}

constexpr double kPercentiles[] = {1.0, 0.999, 0.99, 0.95, 0.9, 0.5, 0.1, 0.05, 0.01, 0.001, 0.0};

Json to_json(const Measured& measured, const ChunkedText& text, const std::string& model) {
  Json json = {
      {"model", model},
      {"chunks", measured.n_chunks},
      {"n_ctx", text.n_ctx},
      {"tokens", measured.losses.size()},
      {"perplexity", to_json(perplexity_of(measured.losses))},
      {"loss", to_json(mean_of(measured.losses))},
      {"seconds", measured.seconds},
      {"tokens_per_second", static_cast<double>(text.tokens.size()) / std::max(measured.seconds, 1e-9)}};
  if (measured.divergences.empty()) return json;
  const auto percentiles = [](std::vector<double> numbers) {
    std::sort(numbers.begin(), numbers.end());
    Json values = Json::object();
    for (const double p : kPercentiles) values[fmt::format("{:g}", 100.0 * p)] = percentile(numbers, p);
    return values;
  };
  std::vector<double> squares;
  for (const double difference : measured.differences) squares.push_back(difference * difference);
  json["base_perplexity"] = to_json(perplexity_of(measured.base_losses));
  json["log_ratio"] = to_json(mean_difference(measured.losses, measured.base_losses));
  json["divergence"] = to_json(mean_of(measured.divergences));
  json["divergence_percentiles"] = percentiles(measured.divergences);
  json["same_top"] = to_json(mean_of(measured.same_top));
  json["probability_difference"] = to_json(mean_of(measured.differences));
  json["probability_difference_rms"] = std::sqrt(mean_of(squares).value);
  json["probability_difference_percentiles"] = percentiles(measured.differences);
  return json;
}

std::string to_report(const Measured& measured, const ChunkedText& text) {
  const auto row = [](const char* name, const Estimate& estimate, double scale = 1.0, const char* unit = "") {
    return std::vector<std::string>{
        name, fmt::format("{:.5f} +- {:.5f}{}", scale * estimate.value, scale * estimate.error, unit)};
  };
  std::vector<std::vector<std::string>> rows = {row("perplexity", perplexity_of(measured.losses))};
  if (!measured.divergences.empty()) {
    std::vector<double> sorted = measured.divergences;
    std::sort(sorted.begin(), sorted.end());
    rows.push_back(row("  of the reference", perplexity_of(measured.base_losses)));
    rows.push_back(row("  log of their ratio", mean_difference(measured.losses, measured.base_losses)));
    rows.push_back(row("KL divergence", mean_of(measured.divergences)));
    for (const double p : kPercentiles)
      rows.push_back({fmt::format("  {:g} %", 100.0 * p), fmt::format("{:.6f}", percentile(sorted, p))});
    rows.push_back(row("same best token", mean_of(measured.same_top), 100.0, " %"));
    rows.push_back(
        row("probability of the right token, difference", mean_of(measured.differences), 100.0, " %"));
  }
  return table_text(rows) +
         fmt::format("{} scored in {} of {}, {:.1f} s: {:.0f} tokens a second\n",
                     base::counted(measured.losses.size(), "token"),
                     base::counted(measured.n_chunks, "chunk"), text.n_ctx, measured.seconds,
                     static_cast<double>(text.tokens.size()) / std::max(measured.seconds, 1e-9));
}

ChunkedText text_for(const PerplexityOptions& options, const Model& model,
                     const std::optional<LogitFileReader>& base) {
  if (!base)
    return cut_text(model.tokenizer(), read_prompt_file(options.file),
                    {.n_ctx = options.n_ctx, .most = options.n_chunks});
  const LogitFileHeader& header = base->header();
  if (header.n_vocab != model.info().n_vocab)
    throw Error(ErrorCode::kInvalidFile, fmt::format("{} is from a model with {} tokens, this one has {}",
                                                     options.base, header.n_vocab, model.info().n_vocab));
  const Tokenizer& tokenizer = model.tokenizer();
  ChunkedText text{static_cast<int>(header.n_ctx),
                   {base->tokens().begin(), base->tokens().end()},
                   tokenizer.adds_bos() ? tokenizer.bos() : kNoToken};
  if (options.n_chunks > 0 && options.n_chunks < text.n_chunks())
    text.tokens.resize(to_size(options.n_chunks) * header.n_ctx);
  return text;
}

void refuse_encoder(const Model& model) {
  if (model.info().encoder)
    throw Error(ErrorCode::kUnsupported, "this model is an encoder and predicts no tokens");
  refuse_source(model, "perplexity");
}

struct Task {
  ChoiceKind kind;
  const char* name;
  int n_wanted;
};

std::optional<Task> task_of(const PerplexityOptions& options) {
  std::vector<Task> tasks;
  if (options.hellaswag) tasks.push_back({ChoiceKind::kHellaSwag, "HellaSwag", options.hellaswag_tasks});
  if (options.winogrande) tasks.push_back({ChoiceKind::kWinoGrande, "WinoGrande", options.winogrande_tasks});
  if (options.multiple_choice)
    tasks.push_back({ChoiceKind::kMultipleChoice, "multiple choice", options.multiple_choice_tasks});
  if (tasks.empty()) return std::nullopt;
  if (tasks.size() > 1)
    throw UsageError(
        "the file has one kind of tasks: give one of --hellaswag, "
        "--winogrande and --multiple-choice");
  if (options.file.empty()) throw UsageError("no tasks: give a file with -f FILE");
  if (!options.base.empty() || !options.save_logits.empty())
    throw UsageError("tasks cannot be combined with --save-all-logits and --kl-divergence-base");
  return tasks.front();
}

int run_tasks(const PerplexityOptions& options, const Task& task) {
  const InterruptGuard interrupt;
  const std::vector<ChoiceTask> texts =
      read_choice_tasks(task.kind, read_text(options.file), to_size(task.n_wanted));
  ContextOptions expected = options.context;
  expected.n_outputs = context_params(expected, options.model).n_ubatch;  // As choice_context().
  const LoadedModel loaded = load_model(options.model, options.talk, interrupt, expected);
  refuse_encoder(*loaded.model);
  std::vector<TokenizedTask> tasks;
  double chance = 0.0;
  for (const ChoiceTask& one : texts) {
    tasks.push_back(tokenize(one, task.kind, loaded.model->tokenizer()));
    const auto n_right = std::count(tasks.back().right.begin(), tasks.back().right.end(), true);
    chance += static_cast<double>(n_right) / static_cast<double>(one.size() * texts.size());
  }
  const std::vector<ChoiceBatch> batches = choice_batches(tasks, options.n_batch);
  Context context(loaded.model, choice_context(context_params(options.context, options.model), batches));
  Progress progress(options.talk, "answering");
  const auto start = std::chrono::steady_clock::now();
  std::vector<double> right;
  score_choices(context, tasks, batches, interrupt, [&](const ChoiceResult& result) {
    right.push_back(result.right ? 1.0 : 0.0);
    progress.update(static_cast<double>(right.size()) / static_cast<double>(tasks.size()));
  });
  progress.done();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Estimate accuracy = mean_of(right);
  const Interval likely = interval_of_share(accuracy.value, right.size());
  if (options.json)
    print(to_text({{"model", loaded.model->info().name},
                   {"task", task.name},
                   {"tasks", right.size()},
                   {"accuracy", to_json(accuracy)},
                   {"interval", {likely.least, likely.most}},
                   {"chance", chance},
                   {"seconds", seconds}},
                  2));
  else
    print(
        fmt::format("{}: {:.2f} % +- {:.2f} % right of {} tasks (95 %: {:.2f} % to {:.2f} %; by chance "
                    "{:.2f} %), {:.1f} s\n",
                    task.name, 100.0 * accuracy.value, 100.0 * accuracy.error, right.size(),
                    100.0 * likely.least, 100.0 * likely.most, 100.0 * chance, seconds));
  return kExitOk;
}

int run(const PerplexityOptions& options) {
  if (const auto task = task_of(options)) return run_tasks(options, *task);
  if (options.file.empty() && options.base.empty())
    throw UsageError(
        "no document: give one with -f FILE, or a file of --save-all-logits with --kl-divergence-base FILE");
  if (!options.base.empty() && !options.save_logits.empty())
    throw UsageError(
        "--save-all-logits writes a reference, and --kl-divergence-base compares with one; give one of them");
  const InterruptGuard interrupt;
  std::optional<LogitFileReader> base;
  if (!options.base.empty()) {
    base.emplace(options.base);
    for (const auto& [name, given] :
         {std::pair("-f", !options.file.empty()), std::pair("-c", options.sets_n_ctx)})
      if (given)
        note(options.talk, fmt::format("{} has no effect with --kl-divergence-base: {} has the text, in "
                                       "chunks of {} tokens",
                                       name, options.base, base->header().n_ctx));
  }
  const bool want_logits = base || !options.save_logits.empty();
  ContextOptions expected = options.context;
  expected.n_outputs = want_logits ? 64 : 256;
  const LoadedModel loaded = load_model(options.model, options.talk, interrupt, expected);
  refuse_encoder(*loaded.model);
  refuse_overwriting(options.save_logits, {loaded.path, options.file});
  const ChunkedText text = text_for(options, *loaded.model, base);

  ContextParams params = context_params(expected, options.model);
  params.n_sequences = parallel_chunks(text, options.n_batch);
  params.n_ctx = cells_for(text, params.n_sequences);
  Context context(loaded.model, params);
  std::optional<LogitFileWriter> writer;
  if (!options.save_logits.empty())
    writer.emplace(options.save_logits,
                   LogitFileHeader{static_cast<std::uint32_t>(text.n_ctx), loaded.model->info().n_vocab,
                                   text.n_chunks()},
                   text.tokens);
  Measured measured{.n_chunks = text.n_chunks()};
  std::vector<float> base_row(base ? to_size(base->header().n_vocab) : 0);
  Progress progress(options.talk, "reading");
  const auto start = std::chrono::steady_clock::now();
  const auto n_rows = static_cast<double>(text.n_chunks()) * text.n_scored();
  score_chunks(context, text, want_logits, interrupt, [&](const ScoredRow& row) {
    measured.losses.push_back(-row.log_probability);
    if (writer) writer->add(row.logits);
    if (base) {
      base->next(base_row);
      const double log_sum_exp = static_cast<double>(row.logits[to_size(row.next)]) - row.log_probability;
      compare(base_row, row, log_sum_exp, measured);
    }
    progress.update(static_cast<double>(measured.losses.size()) / n_rows);
  });
  measured.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  progress.done();
  if (writer) writer->finish();
  print(options.json ? to_text(to_json(measured, text, loaded.model->info().name), 2)
                     : to_report(measured, text));
  return kExitOk;
}

std::function<int()> prepare_perplexity(CLI::App& app) {
  auto options = std::make_shared<PerplexityOptions>();
  const std::string group = "Text";
  app.add_option("-f,--file", options->file,
                 "the document, without one newline at its end; -: standard input")
      ->type_name("FILE")
      ->group(group);
  const CLI::Option* const n_ctx =
      add_size(app, "-c,--ctx-size", options->n_ctx, {4, kMaxChunk}, "tokens per chunk (default 512)")
          ->group(group);
  add_size(app, "--chunks", options->n_chunks, {-1}, "maximum number of chunks to read (default -1: all)")
      ->group(group);
  add_size(app, "-b,--batch-size", options->n_batch, {1, 1 << 20},
           "tokens per step, of several chunks together (default 2048)")
      ->group(group);
  const std::string tasks = "Tasks";
  add_switch(app, "--hellaswag", options->hellaswag, "the file has HellaSwag tasks")->group(tasks);
  add_size(app, "--hellaswag-tasks", options->hellaswag_tasks, {0, kMostTasks, "0: all"},
           "number of tasks, chosen at random (default 400; 0: all)")
      ->group(tasks);
  add_switch(app, "--winogrande", options->winogrande, "the file has WinoGrande tasks")->group(tasks);
  add_size(app, "--winogrande-tasks", options->winogrande_tasks, {0, kMostTasks, "0: all"},
           "number of tasks, chosen at random (default 0: all)")
      ->group(tasks);
  add_switch(app, "--multiple-choice", options->multiple_choice, "the file has multiple-choice tasks")
      ->group(tasks);
  add_size(app, "--multiple-choice-tasks", options->multiple_choice_tasks, {0, kMostTasks, "0: all"},
           "number of tasks, chosen at random (default 0: all)")
      ->group(tasks);
  const std::string reference = "Reference";
  app.add_option("--save-all-logits", options->save_logits,
                 "write the model's logits to this file, as a reference for --kl-divergence-base")
      ->type_name("FILE")
      ->group(reference);
  app.add_option("--kl-divergence-base", options->base,
                 "compare with the logits in this file, for the tokens in it")
      ->type_name("FILE")
      ->group(reference);
  add_cache_type_options(app, options->context, "Cache");
  add_switch(app, "--json", options->json, "print one JSON object")->group("Output");
  add_model_options(app, options->model);
  add_verbosity_options(app, options->talk);
  add_verbose_option(app, options->talk);
  return [options, n_ctx] {
    options->sets_n_ctx = n_ctx->count() > 0;
    return run(*options);
  };
}

}  // namespace

const Command kPerplexityCommand = {
    "perplexity", "[options] -f FILE", "compute the perplexity of a model on a document",
    "Cuts a document into independent chunks and scores the second half of each. The perplexity is e to the\n"
    "mean of -log(probability) of these tokens; weft prints it with its standard error, and\n"
    "llama-perplexity computes the same number. --save-all-logits writes all probabilities in llama.cpp's\n"
    "format. KL divergences from them (--kl-divergence-base) show what a quantized model lost. With\n"
    "--hellaswag, --winogrande or --multiple-choice the file has tasks, in llama.cpp's formats. The model's\n"
    "answer to a task is its most probable choice; weft prints the share of right answers.\n"
    "\n"
    "Examples:\n"
    "  weft perplexity -m model.gguf -f text.txt\n"
    "  weft perplexity -m model-f16.gguf -f text.txt --save-all-logits base.bin\n"
    "  weft perplexity -m model-q4_k_m.gguf --kl-divergence-base base.bin --json\n"
    "  weft perplexity -m model.gguf --hellaswag -f hellaswag_val_full.txt --hellaswag-tasks 1000\n",
    prepare_perplexity};

}  // namespace weft::cli
