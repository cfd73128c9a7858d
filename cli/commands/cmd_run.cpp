// weft run: continues a prompt, or writes the logits of one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/counted.h"
#include "base/to_size.h"
#include "commands/command.h"
#include "conversation/completer.h"
#include "conversation/prompt_cache.h"
#include "files/json_output.h"
#include "files/text_input.h"
#include "options/arguments.h"
#include "options/constraint_options.h"
#include "options/escapes.h"
#include "options/fit_options.h"
#include "options/media_options.h"
#include "options/options.h"
#include "options/speculation_options.h"
#include "terminal/interrupt.h"
#include "weft/batcher.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

struct RunOptions : GenerationOptions {
  std::optional<std::string> prompt;
  std::string prompt_file;
  std::string tokens;  // "1,2,3", "@FILE" or "-"
  std::string mmproj;
  std::vector<std::string> images;
  std::vector<std::string> sounds;
  std::string logits_file;
  std::vector<std::string> stop;
  ConstraintOptions constraint;
  SpeculationOptions speculation;
  PromptCacheOptions cache;
  int n_predict = -1;
  int n_chunk = 0;
  bool ignore_eos = false;
  bool context_shift = false;
  int n_keep = 4;
  bool parse_special = true;
  bool special = false;
  bool json = false;
};

// Numbers with commas, spaces or brackets between them, so that a JSON array will do.
std::vector<Token> parse_tokens(const std::string& argument, int n_vocab) {
  std::string text = argument;
  if (argument == "-") text = read_text("-");
  if (argument.starts_with("@")) text = read_text(argument.substr(1));
  std::vector<Token> tokens;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    Token id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    if (error != std::errc{}) {
      throw UsageError(fmt::format("--tokens: '{}' is not a token id",
                                   std::string_view(at, std::min<std::size_t>(12, to_size(end - at)))));
    }
    if (id < 0 || id >= n_vocab) {
      throw UsageError(fmt::format("--tokens: {} is outside the vocabulary of {} tokens", id, n_vocab));
    }
    tokens.push_back(id);
    at = rest;
  }
  return tokens;
}

bool has_media(const RunOptions& options) { return !options.images.empty() || !options.sounds.empty(); }

PromptWithMedia read_prompt(const RunOptions& options, const LoadedModel& loaded) {
  const Tokenizer& tokenizer = loaded.model->tokenizer();
  PromptWithMedia prompt;
  std::vector<Token>& tokens = prompt.tokens;
  if (!options.tokens.empty()) {
    tokens = parse_tokens(options.tokens, tokenizer.n_vocab());
  } else {
    const std::string text = options.prompt ? *options.prompt : read_prompt_file(options.prompt_file);
    if (has_media(options)) {
      const auto models = load_media(options.mmproj, loaded.path, options.model, *loaded.model, options.talk);
      std::vector<std::shared_ptr<const EncodedMedia>> media;
      for (MediaFile& file : read_media_files(models, options.images, options.sounds))
        media.push_back(std::move(file.encoded));
      const std::string mark = make_media_marker();
      std::vector<PromptPiece> pieces(media.size(), PromptPiece{mark, true});
      pieces.push_back({text, options.parse_special});
      return place_media(tokenizer, pieces, media, mark);
    }
    tokens = tokenizer.encode(text, {.add_special = true, .parse_special = options.parse_special});
    if (tokens.size() > 1 && tokens[0] == tokenizer.bos() && tokens[1] == tokenizer.bos())
      note(options.talk, fmt::format("weft: note: the prompt begins with two {} tokens: weft adds one, so "
                                     "leave yours out of the prompt",
                                     tokenizer.piece(tokenizer.bos(), true)));
    // An empty prompt of a tokenizer that adds no BOS starts with BOS.
    if (tokens.empty() && tokenizer.bos() != kNoToken) tokens.push_back(tokenizer.bos());
  }
  if (tokens.empty()) throw UsageError("the prompt is empty");
  return prompt;
}

void check(const RunOptions& options) {
  const int sources =
      (options.prompt ? 1 : 0) + (options.prompt_file.empty() ? 0 : 1) + (options.tokens.empty() ? 0 : 1);
  if (sources == 0)
    throw UsageError("no prompt: give one with -p TEXT, -f FILE ('-': standard input) or --tokens IDS");
  check(options.cache);
  (void)speculation_of(options.speculation);
  if (sources > 1) throw UsageError("-p, -f and --tokens each set the prompt; give one of them");
  for (const std::string& stop : options.stop)
    if (stop.empty())
      throw UsageError("--stop: the string is empty; leave the option out to set no stop string");
  if (has_media(options) && (!options.tokens.empty() || !options.logits_file.empty()))
    throw UsageError("--image and --audio need a prompt to continue, given with -p or -f");
  if (!options.cache.file.empty() && (has_media(options) || !options.logits_file.empty()))
    throw UsageError("--prompt-cache cannot be combined with --image, --audio or --logits");
  if (!options.logits_file.empty() && options.json)
    throw UsageError("--logits generates nothing, so --json has no effect; leave one of them out");
  if (!options.mmproj.empty() && options.mmproj != kNoMmproj && !has_media(options))
    note(options.talk, "weft: note: --mmproj has no effect without --image or --audio");
  if (options.n_keep != RunOptions().n_keep && !options.context_shift)
    note(options.talk, "weft: note: --keep has no effect without --context-shift");
}

// Regular files appear whole or not at all; devices and pipes are written directly.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path) {
    if (path == "-") {
      file_ = stdout;
    } else if (std::error_code ignored;
               std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
      file_ = std::fopen(path.c_str(), "wb");
      if (file_ == nullptr) throw Error(ErrorCode::kIo, fmt::format("cannot write to '{}'", path_));
    } else {
      whole_.emplace(path);
    }
  }
  ~OutputFile() {
    if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const float> values) {
    if (whole_)
      whole_->write(std::as_bytes(values));
    else if (std::fwrite(values.data(), sizeof(float), values.size(), file_) != values.size())
      fail();
  }
  void close() {
    if (whole_) return whole_->commit();
    std::FILE* file = std::exchange(file_, nullptr);
    if ((file == stdout ? std::fflush(file) : std::fclose(file)) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::kIo, fmt::format("cannot write to '{}' (disk full?)", path_));
  }

  std::string path_;
  std::FILE* file_ = nullptr;
  std::optional<base::AtomicFile> whole_;
};

// Raw float32, [n_tokens][n_vocab]. The rows do not depend on how the prompt is cut.
int write_logits(const RunOptions& options, const LoadedModel& loaded, const std::vector<Token>& tokens,
                 const InterruptGuard& interrupt) {
  const int n_tokens = static_cast<int>(tokens.size());
  ContextParams params = context_params(options.context, options.model);
  if (params.n_ctx == 0) params.n_ctx = n_tokens;
  if (n_tokens > params.n_ctx) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} tokens do not fit into a context of {}; raise --ctx-size", n_tokens, params.n_ctx));
  }
  // All rows of a chunk are in memory at once; the default chunk has 64 MiB.
  const int n_vocab = loaded.model->info().n_vocab;
  const int affordable = std::max(1, (64 << 20) / (static_cast<int>(sizeof(float)) * n_vocab));
  const int wanted = options.n_chunk > 0 ? options.n_chunk : affordable;
  const int piece = std::min({wanted, params.n_ubatch, n_tokens});
  params.n_outputs = piece;
  params.n_sequences = 1;
  params.state_rewind = 0;

  Context context(loaded.model, params);
  const CancelOnInterrupt cancels(context);
  OutputFile out(options.logits_file);
  Progress bar(options.talk, "logits");
  Batch batch;
  for (int begin = 0; begin < n_tokens; begin += piece) {
    const int n = std::min(piece, n_tokens - begin);
    batch.clear();
    for (int i = 0; i < n; ++i) batch.add(tokens[to_size(begin + i)], 0, {.logits = true});
    const DecodeStatus status = context.decode(batch);
    if (status == DecodeStatus::kCancelled || interrupt.requested()) {
      throw Error(ErrorCode::kCancelled, "interrupted");
    }
    if (status != DecodeStatus::kOk)
      throw Error(ErrorCode::kOutOfMemory, "the cache is full; raise --ctx-size");
    for (int i = 0; i < n; ++i) out.write(context.logits(i));
    bar.update(static_cast<double>(begin + n) / n_tokens);
  }
  out.close();
  bar.done();
  note(options.talk,
       fmt::format("wrote {} x {} float32 logits to {}", n_tokens, n_vocab, options.logits_file));
  return kExitOk;
}

/// The note for StopReason::kContextFull, with the option that helps.
std::string why_full(const Context& context, bool context_shift) {
  if (context.cache().cells_total() >= context.cache().max_positions())
    return fmt::format("(the sequence has all {} positions that the model was trained for)",
                       context.cache().max_positions());
  const bool can_shift = !context_shift && context.cache().why_not_forget().empty();
  return fmt::format("(the context of {} tokens is full; -c makes it larger{})", context.params().n_ctx,
                     can_shift ? ", --context-shift continues without the oldest tokens" : "");
}

/// A completion, and the number of its prompt tokens that came from the prompt cache.
struct RunResult : Completion {
  int n_cached = 0;
};

Json to_json(const RunResult& result, const LoadedModel& loaded, const PlanStats& plans) {
  Json json;
  json["text"] = result.text;
  json["tokens"] = result.tokens;
  json["prompt_tokens"] = result.stats.n_prompt;
  json["cached_tokens"] = result.n_cached;
  json["generated_tokens"] = result.tokens.size();
  json["stop_reason"] = to_string(result.stop);
  json["timings"] = {{"load_ms", loaded.load_ms},
                     {"prefill_tokens_per_second", result.prefill_per_second()},
                     {"decode_tokens_per_second", result.decode_per_second()},
                     {"draft_n", result.stats.n_drafted},
                     {"draft_n_accepted", result.stats.n_accepted}};
  json["plans"] = {
      {"compiled", plans.compiled}, {"steps", plans.steps}, {"host_us_per_step", plans.host_us_per_step}};
  return json;
}

/// Completes a prompt whose state a file keeps, all but its last token: that is computed each time.
RunResult complete_cached(const PromptCacheOptions& cache, Completer& completer,
                          std::span<const Token> prompt, const RequestParams& params,
                          const CompletionWatch& watch, const Verbosity& talk) {
  const std::span<const Token> kept = prompt.first(prompt.size() - 1);
  const bool has_all = restore_prompt(cache, completer, kept, talk);
  // The state of a recurrent model cannot be cut at the prompt's end later, so it is saved there.
  std::optional<Completion> prefix;
  if (!has_all && !kept.empty() && !cache.read_only && !cache.all) {
    prefix = completer.complete(kept, {.n_predict = 0}, watch);
    if (prefix->stop != StopReason::kLength) return {*std::move(prefix), 0};
    save_prompt(cache, completer, kept);
  }
  RunResult result{completer.complete(prompt, params, watch)};
  result.n_cached = result.stats.n_cached;
  if (prefix) {
    result.n_cached = prefix->stats.n_cached;
    result.stats.n_cached = prefix->stats.n_cached;
    result.stats.first_token_ms += prefix->stats.prefill_ms();
    result.stats.total_ms += prefix->stats.prefill_ms();
  }
  if (!cache.all) return result;
  std::vector<Token> text(prompt.begin(), prompt.end());
  text.insert(text.end(), result.tokens.begin(), result.tokens.end());
  save_prompt(cache, completer, text);
  return result;
}

void replace_escapes(RunOptions& options) {
  if (options.prompt) options.prompt = read_escapes(*options.prompt, options.sampling.escape);
  options.stop = read_escapes(options.stop, options.sampling.escape);
  cli::replace_escapes(options.sampling);
}

/// Reports with option names the errors of the batcher.
void check_shift(const RequestParams& params, const Context& context) {
  const int room = std::min<int>(context.cache().cells_total(), context.cache().max_positions());
  if (params.context_shift && params.n_keep > room - 2)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--keep keeps {} tokens, and the context has room for {}: --context-shift could "
                            "drop none; give a smaller --keep, or a larger context with -c",
                            params.n_keep, room));
}

int run(RunOptions options) {
  check(options);
  options.context.state_rewind = n_draft_states(options.speculation, 1);
  const std::optional<Grammar> grammar = grammar_of(options.constraint);
  InterruptGuard interrupt;
  options.context.n_sequences =
      1 + n_branch_sequences(options.speculation, find_and_describe(options.model, options.talk, interrupt));
  const LoadedModel loaded =
      load_model(options.model, options.talk, interrupt, options.context,
                 margins_of_companions(options.mmproj, options.speculation, options.model, options.context));
  PromptWithMedia with_media = read_prompt(options, loaded);
  const std::vector<Token>& prompt = with_media.tokens;
  if (!options.logits_file.empty()) refuse_source(*loaded.model, "run --logits");
  if (!options.cache.file.empty()) refuse_source(*loaded.model, "run --prompt-cache");
  if (!options.logits_file.empty()) return write_logits(options, loaded, prompt, interrupt);

  const Tokenizer& tokenizer = loaded.model->tokenizer();
  RequestParams params;
  params.sampler = sampler_params(options.sampling, tokenizer);
  const std::uint64_t seed = params.sampler.seed = Sampler(params.sampler, tokenizer).seed();
  Context context(loaded.model, context_params(options.context, options.model));
  BatcherParams batcher = batcher_params(
      options.speculation, load_draft(options.speculation, options, loaded.placed, context, interrupt));
  batcher.n_step_tokens = options.n_chunk;
  Completer completer(context, batcher);
  const CancelOnInterrupt cancels(context);
  if (!loaded.model->info().reads_source && prompt.size() > to_size(context.cache().cells_total()))
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the prompt has {} and the context has room for {}: give a larger one with -c, or a "
                    "shorter prompt",
                    base::counted(prompt.size(), "token"), context.cache().cells_total()));

  params.parts = std::move(with_media.parts);
  params.n_predict = options.n_predict;
  params.ignore_end =
      options.ignore_eos && !grammar;  // At the end of a grammar only an end token may follow.
  params.context_shift = options.context_shift;
  params.n_keep = options.n_keep < 0 ? static_cast<int>(prompt.size()) : options.n_keep;
  check_shift(params, context);
  params.stop = options.stop;
  params.special = options.special;
  if (grammar)
    params.constraint = [compiled = compile(GrammarCompiler(tokenizer), *grammar)](int) {
      return compiled->constraint();
    };
  Progress bar(options.talk, "reading the prompt");
  const CompletionWatch watch = {
      .on_text =
          [&](std::string_view text) {
            bar.done();
            if (!options.json) print(text);
          },
      .on_prefill = [&](int n) { bar.update(static_cast<double>(n) / static_cast<double>(prompt.size())); },
      .goes_on = [&] { return !interrupt.requested(); }};
  const RunResult result =
      options.cache.file.empty()
          ? RunResult{completer.complete(prompt, std::move(params), watch)}
          : complete_cached(options.cache, completer, prompt, params, watch, options.talk);
  bar.done();

  if (options.json) {
    print(to_text(to_json(result, loaded, context.plan_stats())));
  } else if (!result.text.ends_with('\n')) {
    print("\n");
  }
  if (result.stop == StopReason::kContextFull) note(options.talk, why_full(context, options.context_shift));
  if (options.talk.verbose || (is_terminal(1) && !options.json)) {
    note(options.talk, fmt::format("prompt: {}, {:.1f}/s; generated: {}, {:.1f}/s; stopped: {}",
                                   base::counted(result.stats.n_prompt, "token"), result.prefill_per_second(),
                                   base::counted(result.tokens.size(), "token"), result.decode_per_second(),
                                   to_string(result.stop)));
  }
  if (options.talk.verbose) {
    if (result.stats.n_drafted > 0)
      note(options.talk,
           fmt::format("drafts: {}, of which {} were accepted",
                       base::counted(result.stats.n_drafted, "token"), result.stats.n_accepted));
    const PlanStats plans = context.plan_stats();
    note(options.talk, fmt::format("plans: {} compiled, {} steps, {:.1f} us of host time per step; seed {}",
                                   plans.compiled, plans.steps, plans.host_us_per_step, seed));
  }
  return result.stop == StopReason::kCancelled ? kExitInterrupted : kExitOk;
}

std::function<int()> prepare_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  const std::string group = "Text";
  app.add_option("-p,--prompt", options->prompt, "the prompt")->type_name("TEXT")->group(group);
  app.add_option("-f,--file", options->prompt_file,
                 "file with the prompt, without one newline at its end; -: standard input")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--tokens", options->tokens,
                 "the prompt as token ids: 1,2,3, @FILE, or - for standard input")
      ->type_name("IDS")
      ->group(group);
  add_image_option(app, options->images, group);
  add_audio_option(app, options->sounds, group);
  add_mmproj_option(app, options->mmproj, group);
  add_size(app, "-n,--predict,--n-predict", options->n_predict, kPredictRange,
           "maximum tokens to generate (default -1: until the model stops or the context is full)")
      ->group(group);
  add_switch(app, "--ignore-eos", options->ignore_eos, "continue after end tokens")->group(group);
  add_switch(app, "--context-shift", options->context_shift,
             "when the context is full, drop the older half of the sequence and continue")
      ->group(group);
  add_size(app, "--keep", options->n_keep, {-1, std::numeric_limits<int>::max(), "-1: the whole prompt"},
           "number of first tokens that --context-shift keeps; -1: the whole prompt (default 4)")
      ->group(group);
  add_repeated(app, "--stop,-r,--reverse-prompt", options->stop,
               "stop string, which is not printed; may be given again", "TEXT")
      ->group(group);
  add_switch(app, "--parse-special", options->parse_special,
             "parse control tokens such as <|im_end|> in the prompt (default); --no-parse-special: as plain "
             "text")
      ->group(group);
  add_switch(app, "--special", options->special, "print control tokens such as <|im_end|>")->group(group);
  add_prompt_cache_options(app, options->cache, group);
  add_constraint_options(app, options->constraint);
  add_size(app, "--chunk", options->n_chunk, {1},
           "prefill the prompt in chunks of N tokens (default: the batch size)")
      ->group(group);
  app.add_option(
         "--logits", options->logits_file,
         "write the logits of all prompt positions as raw float32 [tokens][vocabulary], and generate nothing")
      ->type_name("FILE")
      ->group(group);
  add_switch(app, "--json", options->json, "print one JSON object instead of the completion")
      ->group("Output");
  add_speculation_options(app, options->speculation);
  add_generation_options(app, *options);
  return [options] {
    replace_escapes(*options);
    return run(*options);
  };
}

}  // namespace

const Command kRunCommand = {
    "run", "-p TEXT [options]", "generate text from a prompt",
    "The completion goes to stdout as it is generated; everything else goes to stderr. weft continues the\n"
    "prompt as it is, without a chat template; for conversations use 'weft chat'. Encoder-decoder models\n"
    "such as T5 encode the prompt and generate a response to it.\n"
    "\n"
    "Examples:\n"
    "  weft run -p \"Once upon a time\" -n 64\n"
    "  weft run -m gemma -f essay.txt --temp 0 --json\n"
    "  weft run -m gemma --mmproj mmproj.gguf --image cat.jpg -p \"The picture shows\"\n"
    "  weft run -f question.txt --grammar 'root ::= \"yes\" | \"no\"'\n"
    "  weft run -f book.txt -n 64 --prompt-cache book.state\n"
    "  weft run -m flan-t5 -p \"translate English to German: The house is wonderful.\"\n"
    "  weft run --tokens 1,2,3 --logits out.f32 --cache-type-k f32 --cache-type-v f32\n",
    prepare_run};

}  // namespace weft::cli
