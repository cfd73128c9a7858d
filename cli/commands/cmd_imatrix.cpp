// weft imatrix: computes the importance matrix of a model from documents.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/to_size.h"
#include "commands/command.h"
#include "files/json_output.h"
#include "files/text_input.h"
#include "options/arguments.h"
#include "options/options.h"
#include "quality/importance_statistics.h"
#include "quality/logit_file.h"
#include "quality/perplexity.h"
#include "terminal/interrupt.h"
#include "terminal/text_format.h"
#include "weft/error.h"
#include "weft/importance.h"
#include "weft/not_numbers.h"

namespace weft::cli {
namespace {

struct ImatrixOptions {
  Verbosity talk;
  ModelOptions model;
  ContextOptions context;
  std::string file;
  std::string output = "imatrix.gguf";
  ImportanceForm form = ImportanceForm::kGguf;
  std::vector<std::string> in_files;
  ChunkChoice chunks;
  int n_batch = 2048;
  int output_frequency = 10;
  int save_frequency = 0;
  bool process_output = false;
  bool show_statistics = false;
  bool json = false;
};

struct Collected {
  Importance importance;
  std::size_t n_tokens = 0;  // Of this run.
  double seconds = 0.0;
};

bool is_head(const std::string& tensor) { return tensor == "output.weight" || tensor == "token_embd.weight"; }

Importance sums_of(const Context& context, const Importance& before, const ImatrixOptions& options,
                   int n_chunks) {
  Importance now{.tensors = context.column_sums(),
                 .datasets = {options.file},
                 .n_chunks = n_chunks,
                 .chunk_size = options.chunks.n_ctx};
  if (!options.process_output)
    std::erase_if(now.tensors, [](const ColumnSums& of) { return is_head(of.tensor); });
  for (const ColumnSums& of : now.tensors)
    for (const double sum : of.sums)
      if (!std::isfinite(sum)) throw NotNumbersError(context.model());
  Importance all = before;
  all.chunk_size = now.chunk_size;
  merge_importance(all, now);
  return all;
}

void read_chunks(Context& context, const ChunkedText& text, int begin, int end, bool want_logits,
                 const InterruptGuard& interrupt) {
  Batch batch;
  context.cache().clear();
  for (int c = begin; c < end; ++c)
    for (int i = 0; i < text.n_ctx; ++i) {
      const Token token = text.tokens[to_size(c) * to_size(text.n_ctx) + to_size(i)];
      // The last layer computes the rows that something is wanted of.
      batch.add(i == 0 && text.bos != kNoToken ? text.bos : token, c - begin,
                {.logits = want_logits,
                 .n_best = want_logits ? std::min(context.params().n_best, 1) : 0,
                 .embedding = !want_logits});
    }
  const DecodeStatus status = context.decode(batch);
  if (status == DecodeStatus::kCancelled || interrupt.requested())
    throw Error(ErrorCode::kCancelled, "interrupted");
  if (status != DecodeStatus::kOk) throw Error(ErrorCode::kOutOfMemory, "the cache is full");
}

Collected collect(const ImatrixOptions& options, const Importance& before) {
  const InterruptGuard interrupt;
  ContextOptions expected = options.context;
  if (options.process_output) expected.n_outputs = context_params(expected, options.model).n_ubatch;
  const LoadedModel loaded = load_model(options.model, options.talk, interrupt, expected);
  if (loaded.model->info().encoder)
    throw Error(ErrorCode::kUnsupported,
                "this model is an encoder; an importance matrix needs a model that generates");
  refuse_source(*loaded.model, "imatrix");
  refuse_overwriting(options.output, {loaded.path, options.file});
  const ChunkedText text =
      cut_text(loaded.model->tokenizer(), read_prompt_file(options.file), options.chunks);
  ContextParams params = context_params(expected, options.model);
  params.n_sequences = parallel_chunks(text, options.n_batch);
  params.n_ctx = cells_for(text, params.n_sequences);
  if (!options.process_output) params.n_outputs = params.n_sequences;
  params.sum_columns = true;
  Context context(loaded.model, params);
  Progress progress(options.talk, "reading");
  const auto start = std::chrono::steady_clock::now();
  Collected collected;
  int saved = 0, copied = 0;
  for (int begin = 0; begin < text.n_chunks(); begin += params.n_sequences) {
    const int end = std::min(begin + params.n_sequences, text.n_chunks());
    read_chunks(context, text, begin, end, options.process_output, interrupt);
    const bool save = options.output_frequency > 0 && end - saved >= options.output_frequency;
    const bool copy = options.save_frequency > 0 && end - copied >= options.save_frequency;
    if (save || copy || end == text.n_chunks()) collected.importance = sums_of(context, before, options, end);
    if (save) {
      write_importance(options.output, collected.importance, options.form);
      saved = end;
    }
    if (copy) {
      write_importance(fmt::format("{}.at_{}", options.output, end), collected.importance, options.form);
      copied = end;
    }
    progress.update(static_cast<double>(end) / text.n_chunks());
  }
  progress.done();
  collected.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  collected.n_tokens = text.tokens.size();
  return collected;
}

Importance read_files(const ImatrixOptions& options) {
  Importance all{.chunk_size = options.chunks.n_ctx};
  for (const std::string& file : options.in_files) {
    const Importance one = read_importance(file, options.chunks.n_ctx);
    if (all.tensors.empty()) all.chunk_size = one.chunk_size;
    merge_importance(all, one);
  }
  return all;
}

int show(const ImatrixOptions& options) {
  const std::vector<ImportanceStatistics> statistics = statistics_of(read_files(options));
  print(options.json ? to_text(to_json(statistics), 2) : to_report(statistics));
  return kExitOk;
}

int run(const ImatrixOptions& options) {
  if (options.show_statistics) {
    if (options.in_files.empty()) throw UsageError("--show-statistics needs --in-file FILE");
    return show(options);
  }
  if (options.file.empty() && options.in_files.empty())
    throw UsageError("no document: give one with -f FILE, or files to merge with --in-file FILE");
  Collected collected{.importance = read_files(options)};
  if (!options.file.empty()) collected = collect(options, collected.importance);
  const Importance& importance = collected.importance;
  write_importance(options.output, importance, options.form);
  std::size_t n_matrices = 0, n_never_read = 0;
  for (const ColumnSums& of : importance.tensors) {
    n_matrices += of.counts.size();
    n_never_read += to_size(std::count(of.counts.begin(), of.counts.end(), 0.0));
  }
  const double speed = static_cast<double>(collected.n_tokens) / std::max(collected.seconds, 1e-9);
  if (options.json) {
    print(to_text({{"output", options.output},
                   {"tensors", importance.tensors.size()},
                   {"matrices", n_matrices},
                   {"never_read", n_never_read},
                   {"datasets", importance.datasets},
                   {"chunks", importance.n_chunks},
                   {"chunk_size", importance.chunk_size},
                   {"tokens", collected.n_tokens},
                   {"seconds", collected.seconds},
                   {"tokens_per_second", speed}},
                  2));
    return kExitOk;
  }
  if (collected.n_tokens > 0)
    print(fmt::format("{} tokens read, {:.1f} s: {:.0f} tokens a second\n", collected.n_tokens,
                      collected.seconds, speed));
  if (n_never_read > 0)
    print(fmt::format("{} of {} matrices were never used, so their importance is unknown\n", n_never_read,
                      n_matrices));
  print(fmt::format("wrote {}: {}, {}\n", options.output, base::counted(importance.tensors.size(), "tensor"),
                    base::counted(importance.n_chunks, "chunk")));
  return kExitOk;
}

std::function<int()> prepare_imatrix(CLI::App& app) {
  auto options = std::make_shared<ImatrixOptions>();
  const std::string group = "Text";
  app.add_option("-f,--file", options->file,
                 "the document, without one newline at its end; -: standard input")
      ->type_name("FILE")
      ->group(group);
  add_size(app, "-c,--ctx-size", options->chunks.n_ctx, {4, kMaxChunk}, "tokens per chunk (default 512)")
      ->group(group);
  add_size(app, "--chunks", options->chunks.most, {-1}, "maximum number of chunks to read (default -1: all)")
      ->group(group);
  add_size(app, "--chunk,--from-chunk", options->chunks.skip, {0}, "skip the first N chunks (default 0)")
      ->group(group);
  add_size(app, "-b,--batch-size", options->n_batch, {1, 1 << 20},
           "tokens per step, of several chunks together (default 2048)")
      ->group(group);
  add_switch(app, "--parse-special", options->chunks.parse_special, "parse control tokens in the document")
      ->group(group);
  const std::string files = "Files";
  app.add_option("-o,--output,--output-file", options->output, "the file to write (default imatrix.gguf)")
      ->type_name("FILE")
      ->group(files);
  add_choice<ImportanceForm>(app, "--output-format", options->form,
                             {{"gguf", ImportanceForm::kGguf}, {"dat", ImportanceForm::kOlder}},
                             "file format (default gguf); dat: llama.cpp's older format")
      ->group(files);
  app.add_option("--in-file", options->in_files, "importance matrix to add to the result; may be given again")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group(files);
  add_size(app, "--output-frequency", options->output_frequency, {0},
           "save the result after every N chunks (default 10; 0: only at the end)")
      ->group(files);
  add_size(app, "--save-frequency", options->save_frequency, {0},
           "keep a copy FILE.at_N after every N chunks (default 0: never)")
      ->group(files);
  add_switch(app, "--process-output", options->process_output, "include the output matrix (lm_head)")
      ->group(group);
  const std::string output = "Output";
  add_switch(app, "--show-statistics", options->show_statistics,
             "print statistics of the files of --in-file, without reading a document")
      ->group(output);
  add_switch(app, "--json", options->json, "print one JSON object")->group(output);
  add_cache_type_options(app, options->context, "Cache");
  add_model_options(app, options->model);
  add_verbosity_options(app, options->talk);
  add_verbose_option(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kImatrixCommand = {
    "imatrix", "[options] -f FILE", "compute the importance matrix of a model",
    "Reads a document in chunks and sums the squares of the inputs of each matrix by column, for each\n"
    "expert separately. 'weft quantize --imatrix' uses the sums to keep more precision where it matters.\n"
    "llama-quantize reads the file, too, and weft reads files of llama-imatrix.\n"
    "\n"
    "Examples:\n"
    "  weft imatrix -m model-f16.gguf -f text.txt\n"
    "  weft imatrix -m model-f16.gguf -f more.txt --in-file imatrix.gguf -o both.gguf --chunks 100\n"
    "  weft imatrix --in-file old.dat -o new.gguf\n"
    "  weft imatrix --in-file imatrix.gguf --show-statistics\n"
    "  weft quantize --imatrix imatrix.gguf model-f16.gguf IQ3_M\n",
    prepare_imatrix};

}  // namespace weft::cli
