#include "options/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>

#include "files/hub_models.h"
#include "files/model_cache.h"
#include "options/arguments.h"
#include "options/escapes.h"
#include "serving/lost_devices.h"
#include "terminal/interrupt.h"
#include "terminal/text_format.h"
#include "weft/cluster.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr int kMaxGib = 1 << 20;
constexpr float kLarge = 1e9f;

const std::map<std::string, CacheType>& cache_types() {
  static const std::map<std::string, CacheType> types = {
      {"auto", CacheType::kAuto},    {"f32", CacheType::kF32},   {"f16", CacheType::kF16},
      {"bf16", CacheType::kBF16},    {"q8_0", CacheType::kQ8_0}, {"q4_0", CacheType::kQ4_0},
      {"q4_1", CacheType::kQ4_1},    {"q5_0", CacheType::kQ5_0}, {"q5_1", CacheType::kQ5_1},
      {"iq4_nl", CacheType::kIQ4_NL}};
  return types;
}

CLI::Option* add_int(CLI::App& app, const std::string& names, int& value, Range<int> range,
                     const std::string& help) {
  return add_size(app, names, value, range, fmt::format("{} (default {})", help, value));
}

// OMP_NUM_THREADS is what users already set to leave cores to other programs.
int threads_from_environment() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  return text != nullptr ? std::clamp(std::atoi(text), 0, kMaxThreads) : 0;
}

std::pair<Token, float> parse_logit_bias(const std::string& text) {
  Token id = 0;
  float bias = 0.0f;
  const char* end = text.data() + text.size();
  const auto [sign, id_error] = std::from_chars(text.data(), end, id);
  const bool signed_value = id_error == std::errc{} && sign != end && (*sign == '+' || *sign == '-');
  if (signed_value) {
    // from_chars takes a minus and "inf", but no plus.
    const auto [rest, error] = std::from_chars(*sign == '+' ? sign + 1 : sign, end, bias);
    if (error == std::errc{} && rest == end) return {id, bias};
  }
  throw UsageError(
      fmt::format("--logit-bias '{}': expected ID+BIAS or ID-BIAS, e.g. 15043-1.5 or 2-inf", text));
}

std::vector<SamplerStep> read_steps(std::string_view option, const std::string& text,
                                    std::vector<SamplerStep> (*parse)(std::string_view)) try {
  return parse(text);
} catch (const Error& error) {
  throw UsageError(fmt::format("{} '{}': {}", option, text, error.what()));
}

}  // namespace

const std::map<std::string, ColorMode>& color_modes() {
  static const std::map<std::string, ColorMode> modes = {{"auto", ColorMode::kAuto},
                                                         {"always", ColorMode::kAlways},
                                                         {"never", ColorMode::kNever},
                                                         {"on", ColorMode::kAlways},
                                                         {"off", ColorMode::kNever}};
  return modes;
}

void add_verbosity_options(CLI::App& app, Verbosity& talk) {
  add_switch(app, "-q,--quiet", talk.quiet, "print only results and errors")->group("Output");
  add_switch(app, "--progress", talk.progress, "show progress bars on a terminal (default)")->group("Output");
  add_choice(app, "--color", talk.color, color_modes(),
             "colour of the output and of errors; auto: on a terminal, unless NO_COLOR is set")
      ->group("Output");
}

void add_verbose_option(CLI::App& app, Verbosity& talk) {
  add_switch(app, "-v,--verbose", talk.verbose, "print more on stderr: the model, speeds, plans")
      ->group("Output");
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  options.n_threads = threads_from_environment();
  app.add_option(
         "-m,--model", options.model,
         "a GGUF file, a model's folder, or a name (or part of a name) in the model cache, see 'weft models' "
         "(default: the default model)")
      ->type_name("FILE")
      ->group("Model");
  add_hub_options(app, options.model, "Model");
  add_size(app, "-t,--threads", options.n_threads, {0, kMaxThreads, "0: all cores"},
           "threads (default: OMP_NUM_THREADS, or all cores)")
      ->group("Model");
  add_switch(
      app, "--repack", options.repack,
      "repack weights for fast CPU kernels (default). --no-repack (-nr) uses the file's layout, with equal "
      "results: less memory, but much slower")
      ->group("Model");
  add_switch(app, "--pack-cache", options.pack_cache,
             "save repacked weights on disk next to the model cache, for faster starts (default)")
      ->group("Model");
  add_size(app, "--pack-cache-size", options.pack_cache_gib, {0, kMaxGib, "0: none are kept"},
           "maximum GiB of repacked weights on disk; the least recently used are removed first (default 64)")
      ->group("Model");
  add_choice<CpuIsa>(app, "--isa", options.isa,
                     {{"best", CpuIsa::kBest},
                      {"generic", CpuIsa::kGeneric},
                      {"avx2", CpuIsa::kAvx2},
                      {"avxvnni", CpuIsa::kAvxVnni},
                      {"avx512", CpuIsa::kAvx512},
                      {"avx512bf16", CpuIsa::kAvx512Bf16},
                      {"amx", CpuIsa::kAmx},
                      {"neon", CpuIsa::kNeon},
                      {"i8mm", CpuIsa::kI8mm}},
                     "instruction set of the CPU kernels, for tests and comparisons (default best)")
      ->group("Model");
  add_pre_tokenizer_option(app, options.pre_tokenizer, "Model");
  add_adapter_options(app, options.adapters);
  add_device_options(app, options);
}

void add_pre_tokenizer_option(CLI::App& app, std::string& name, const std::string& group) {
  app.add_option("--pre", name,
                 "override the pre-tokenizer that the file names, e.g. gpt-2, llama-bpe, qwen2")
      ->type_name("NAME")
      ->group(group);
}

void add_device_options(CLI::App& app, ModelOptions& options) {
  const std::string group = "Devices";
  app.add_option("--device", options.devices,
                 "devices to use besides the CPU, by their names in 'weft devices'; cpu: only the CPU; "
                 "NAME=DEVICE opens a device once more under that name (default: all GPUs)")
      ->type_name("A,B,...")
      ->group(group);
  app.add_option(
         "--gpu-layers,--n-gpu-layers", options.n_layers,
         "number of layers on those devices, the last ones; all, or 0: none (default: as many as fit)")
      ->type_name("N")
      ->group(group);
  app.add_option(
         "--tensor-split", options.shares,
         "proportion of the model on each device, e.g. 3,1 (default: by memory; among CPUs by speed; with "
         "--split-mode row evenly)")
      ->type_name("A,B,...")
      ->group(group);
  add_choice<std::optional<bool>>(app, "--split,--split-mode", options.split_rows,
                                  {{"auto", std::nullopt}, {"layer", false}, {"row", true}, {"tensor", true}},
                                  "layer: whole layers per device; row or tensor: shard every layer; auto: "
                                  "the faster of the two by measured speed, for CPUs of several processes "
                                  "(default: layer)")
      ->group(group);
  add_repeated(
      app, "--pin", options.pins,
      "place tensors whose names match the regular expression, e.g. 'ffn_up=cpu'; may be given again, the "
      "last match wins",
      "REGEX=DEVICE")
      ->group(group);
  add_switch(app, "--cpu-moe", options.placement.experts_on_cpu, "keep the experts' weights on the CPU")
      ->group(group);
  add_size(app, "--n-cpu-moe", options.n_cpu_moe, {0, std::numeric_limits<int>::max(), "0: none"},
           "keep the experts' weights of the first N layers on the CPU (default 0)")
      ->group(group);
  add_switch(
      app, "--fit", options.placement.fit,
      "fit the model into the devices' memory (default): a shorter context, then experts and layers on "
      "the CPU, as far as no option sets them; refuse it if it still does not fit")
      ->group(group);
  app.add_option_function<std::string>(
         "--fit-target", [&options](const std::string& text) { options.fit_target = parse_fit_target(text); },
         "MiB of each device that --fit leaves free, one number or one per device (default: 1024 on "
         "GPUs)")
      ->type_name("MIB,...")
      ->group(group);
  add_size(app, "--fit-ctx", options.placement.n_ctx_min, {0},
           "shortest context that --fit may choose if -c is not given (default 4096)")
      ->group(group);
}

std::optional<int> parse_layers(std::string_view option, const std::string& text) {
  if (text.empty() || text == "auto" || text == "-1") return std::nullopt;
  if (text == "all") return std::numeric_limits<int>::max();
  int n = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || rest != text.data() + text.size() || n < 0)
    throw UsageError(fmt::format("{}: '{}' is not a number of layers, all or auto", option, text));
  return n;
}

std::vector<std::string> split_at_commas(std::string_view list) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    words.emplace_back(list.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return words;
}

PlacementParams placement_params(const ModelOptions& options) {
  PlacementParams params = options.placement;
  params.split_rows = options.split_rows.value_or(false);
  params.devices = split_at_commas(options.devices);
  for (const std::string& word : split_at_commas(options.shares)) {
    float share = 0.0f;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), share);
    if (error != std::errc{} || rest != word.data() + word.size() || !(share >= 0.0f))
      throw UsageError(fmt::format("--tensor-split: '{}' is not a share; write numbers, e.g. 3,1", word));
    params.shares.push_back(share);
  }
  params.n_layers = parse_layers(options.layers_option, options.n_layers).value_or(params.n_layers);
  for (const std::string& text : options.pins) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      throw UsageError(fmt::format("--pin '{}': expected REGEX=DEVICE, e.g. ffn_up=cpu", text));
    params.pins.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  if (!options.lost.empty()) leave_out(options.lost, params);
  return params;
}

std::shared_ptr<Registry> find_all_backends() {
  std::vector<std::filesystem::path> folders;
  if (const char* list = std::getenv("WEFT_BACKENDS"); list != nullptr) {
    const std::string_view text = list;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t colon = std::min(text.find(':', begin), text.size());
      if (colon > begin) folders.emplace_back(text.substr(begin, colon - begin));
      begin = colon + 1;
    }
  }
  return load_backends(folders);
}

std::string choose_split(const std::filesystem::path& path, const ModelOptions& options, int n_texts,
                         ModelParams& params) {
  if (options.split_rows) return "";
  ModelParams expected = params;
  expected.placement.n_sequences = n_texts;
  SplitChoice choice = weft::choose_split(path, expected);
  params.placement.split_rows = choice.split_rows;
  return std::move(choice.why);
}

void note_missing_gpu(const ModelOptions& options, const PlacementParams& params, const Registry& registry,
                      const Verbosity& talk) {
  if (params.n_layers <= 0 || !params.devices.empty() || list_devices(registry).size() > 1) return;
  note(talk, fmt::format("weft: note: {} has no effect: no GPU was found; 'weft devices' lists the devices",
                         options.layers_option));
  for (const std::string& problem : problems(registry)) note(talk, problem);
}

ModelParams model_params(const ModelOptions& options, const ContextOptions& context, const Verbosity& talk) {
  ModelParams params;
  params.n_threads = options.n_threads;
  params.isa = options.isa;
  params.repack = options.repack;
  params.pre_tokenizer = options.pre_tokenizer;
  params.chat_template = options.chat_template;
  if (options.pack_cache) params.pack_cache = packed_cache_dir();
  params.pack_cache_bytes = static_cast<std::uint64_t>(options.pack_cache_gib) << 30;
  load_with(options.adapters, params);
  params.placement = placement_params(options);
  params.n_cpu_moe = options.n_cpu_moe;
  const ContextParams expected = context_params(context, options);
  params.placement.n_ctx = expected.n_ctx;
  if (expected.n_ctx > 0) params.placement.n_ctx_min = 0;  // The user's length is kept.
  params.placement.n_sequences = expected.n_sequences;
  params.placement.state_rewind = expected.state_rewind;
  params.placement.k_type = expected.k_type;
  params.placement.v_type = expected.v_type;
  params.placement.n_ubatch = expected.n_ubatch;
  params.placement.n_source = expected.n_source;
  params.placement.n_outputs = expected.n_outputs;
  params.registry = find_all_backends();
  note_missing_gpu(options, params.placement, *params.registry, talk);
  params.placement.margins = target_margins(options, *params.registry);
  return params;
}

void refuse_source(const Model& model, std::string_view command) {
  if (model.info().reads_source)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("models of the family {} need an encoder input, and 'weft {}' has none; use "
                            "'weft run', 'weft chat' or 'weft serve', which encode the prompt",
                            model.info().architecture, command));
}

TranscriberParams transcriber_params(const ModelOptions& options) {
  TranscriberParams params{.n_threads = options.n_threads, .registry = find_all_backends()};
  if (!options.devices.empty()) params.devices = split_at_commas(options.devices);
  return params;
}

ModelInfo find_and_describe(ModelOptions& options, const Verbosity& talk, const InterruptGuard& interrupt) {
  const std::filesystem::path path = find_model(options.model, talk, [&] { return !interrupt.requested(); });
  options.model = path.string();
  return inspect(path).model.value_or(ModelInfo());
}

LoadedModel load_model(const ModelOptions& options, const Verbosity& talk, const InterruptGuard& interrupt,
                       const ContextOptions& context, const OtherMargins& others) {
  const auto start = std::chrono::steady_clock::now();
  const std::filesystem::path path = find_model(options.model, talk, [&] { return !interrupt.requested(); });
  Progress bar(talk, "loading " + path.filename().string());
  ModelParams params = model_params(options, context, talk);
  if (others)
    for (Margin& margin : others(path, *params.registry))
      params.placement.margins.push_back(std::move(margin));
  LoadedModel loaded{.path = path};
  params.placed = [&](const PlacementReport& report) {
    loaded.placed = report;
    if (!talk.verbose && !is_worth_a_table(report)) return;
    bar.done();
    for (const std::string& line : to_table(report)) note(talk, line);
  };
  params.progress = [&](float fraction) {
    bar.update(fraction);
    return !interrupt.requested();
  };
  const std::string why = choose_split(path, options, context.n_texts, params);
  loaded.model = Model::load(path, params);
  bar.done();
  for (const std::string& what : loaded.model->notes()) note(talk, "note: " + printable(what));
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  loaded.load_ms = elapsed.count();
  if (talk.verbose) {
    const ModelInfo& info = loaded.model->info();
    note(talk, fmt::format("model: {} ({}, {}, {:.1f}M parameters), {} in {:.0f} ms", path.string(),
                           info.architecture, info.quantisation, static_cast<double>(info.n_parameters) / 1e6,
                           info.weights_mapped ? "mapped" : "loaded", loaded.load_ms));
    if (!why.empty()) note(talk, why);
  }
  return loaded;
}

void add_cache_type_options(CLI::App& app, ContextOptions& options, const std::string& group) {
  add_choice(app, "--cache-type-k", options.k_type, cache_types(),
             "type of the cache for keys (default auto: bf16 where the CPU multiplies it faster, else f16)")
      ->group(group);
  add_choice(app, "--cache-type-v", options.v_type, cache_types(),
             "type of the cache for values (default auto)")
      ->group(group);
  add_switch(app, "--cache-rotation", options.rotate_cache,
             "rotate keys and values of quantized caches, which lowers their error (default)")
      ->group(group);
}

void add_context_options(CLI::App& app, ContextOptions& options) {
  const std::string group = "Context";
  add_size(app, "-c,--ctx-size", options.n_ctx, {0},
           "context size in tokens (default: the model's context, at most 8k)")
      ->group(group);
  add_size(app, "-b,--batch-size", options.n_batch, {0}, "prompt tokens per step (default 512)")
      ->group(group);
  add_size(app, "--ubatch-size", options.n_ubatch, {0}, "as --batch-size; weft uses the smaller of the two")
      ->group(group);
  add_cache_type_options(app, options, group);
  add_size(
      app, "--window-rewind", options.window_rewind, {.otherwise = "--swa-full keeps everything"},
      "tokens that a sequence can be rolled back by, for models with sliding-window layers (default 256)")
      ->group(group);
  add_size(app, "--source-size", options.n_source, {0},
           "maximum tokens of the encoder's input, for encoder-decoder models such as T5 (default 512)")
      ->group(group);
  app.add_flag("--swa-full", options.full_windows, "keep all tokens in the cache of sliding-window layers")
      ->group(group);
}

CacheType parse_cache_type(const std::string& option, const std::string& text) {
  return parse_choice(option, text, cache_types());
}

std::string to_string(CacheType type) {
  for (const auto& [word, value] : cache_types())
    if (value == type) return word;
  return "";
}

ContextParams context_params(const ContextOptions& options, const ModelOptions& model) {
  ContextParams params;
  params.n_ctx = options.n_ctx;
  params.n_sequences = options.n_sequences;
  params.n_source = options.n_source;
  params.n_outputs = options.n_outputs;
  params.n_threads = model.n_threads;
  params.k_type = options.k_type;
  params.v_type = options.v_type;
  params.rotate_cache = options.rotate_cache;
  params.window_rewind = options.full_windows ? -1 : options.window_rewind;
  params.state_rewind = options.state_rewind;
  params.adapters = usual_adapters(model.adapters);
  if (options.n_batch > 0 && options.n_ubatch == 0) {
    // llama.cpp has two sizes, and users often copy the first with its default of 2048. Here it is only an
    // upper bound.
    params.n_ubatch = std::min(options.n_batch, params.n_ubatch);
  } else if (options.n_ubatch > 0) {
    params.n_ubatch = options.n_batch > 0 ? std::min(options.n_batch, options.n_ubatch) : options.n_ubatch;
  }
  return params;
}

void add_sampling_options(CLI::App& app, SamplingOptions& options) {
  SamplerParams& p = options.params;
  const std::string group = "Sampling";
  app.add_option("-s,--seed", options.seed, "RNG seed (default -1: random)")->type_name("N")->group(group);
  add_number(app, "--temp,--temperature", p.temperature,
             {0, kLarge, "0 always takes the most probable token"}, "temperature; 0: greedy")
      ->group(group);
  add_int(app, "--top-k", p.top_k, {-1}, "keep the N most probable tokens; 0: all")->group(group);
  add_number(app, "--top-p", p.top_p, {0, 1},
             "keep the most probable tokens with a total probability of F; 1: all")
      ->group(group);
  add_number(app, "--min-p", p.min_p, {0, 1},
             "keep tokens with at least F times the highest probability; 0: all")
      ->group(group);
  add_number(app, "--typical,--typical-p", p.typical_p, {0, 1}, "keep locally typical tokens; 1: all")
      ->group(group);
  add_number(app, "--top-nsigma,--top-n-sigma", p.top_n_sigma, {-1, kLarge},
             "keep logits within N standard deviations of the highest; -1: all")
      ->group(group);
  add_number(app, "--xtc-probability", p.xtc_probability, {0, 1},
             "XTC: probability of removing the most probable tokens; 0: off")
      ->group(group);
  add_number(app, "--xtc-threshold", p.xtc_threshold, {0, 1},
             "XTC: minimum probability of the tokens that are removed")
      ->group(group);
  add_number(app, "--dynatemp-range", p.dynamic_temperature_range, {0, kLarge},
             "dynamic temperature: range around the temperature; 0: off")
      ->group(group);
  add_number(app, "--dynatemp-exp", p.dynamic_temperature_exponent, {0, kLarge},
             "dynamic temperature: exponent")
      ->group(group);
  add_int(app, "--mirostat", p.mirostat, {0, 2},
          "Mirostat version 1 or 2, in place of top-k, top-p and the like; 0: off")
      ->group(group);
  add_number(app, "--mirostat-ent,--mirostat-tau", p.mirostat_tau, {0, kLarge},
             "Mirostat: target entropy (tau)")
      ->group(group);
  add_number(app, "--mirostat-lr,--mirostat-eta", p.mirostat_eta, {0, kLarge},
             "Mirostat: learning rate (eta)")
      ->group(group);
  add_int(app, "--repeat-last-n", p.penalty_last_n, {-1},
          "number of last tokens that penalties consider; 0: off, -1: all")
      ->group(group);
  add_number(app, "--repeat-penalty", p.repetition_penalty, {1e-6f, kLarge},
             "penalty for tokens already in the context; 1: off")
      ->group(group);
  add_number(app, "--presence-penalty", p.presence_penalty, {-kLarge, kLarge},
             "subtracted from the logits of tokens already in the context; 0: off")
      ->group(group);
  add_number(app, "--frequency-penalty", p.frequency_penalty, {-kLarge, kLarge},
             "subtracted for each occurrence of a token in the context; 0: off")
      ->group(group);
  add_number(app, "--dry-multiplier", p.dry_multiplier, {0, kLarge}, "DRY: strength of the penalty; 0: off")
      ->group(group);
  add_number(app, "--dry-base", p.dry_base, {0, kLarge}, "DRY: base of the penalty's growth")->group(group);
  add_int(app, "--dry-allowed-length", p.dry_allowed_length, {0},
          "DRY: maximum length of repetitions without a penalty")
      ->group(group);
  add_int(app, "--dry-penalty-last-n", p.dry_penalty_last_n, {-1},
          "DRY: number of last tokens to search for repetitions; -1: all")
      ->group(group);
  add_repeated(
      app, "--dry-sequence-breaker", options.dry_breakers,
      R"(DRY: string that ends a repetition; may be given again; none: no string (default: newline : " *))",
      "TEXT")
      ->group(group);
  add_repeated(app, "--logit-bias", options.logit_biases,
               "bias to add to a token's logit, e.g. 15043-1.5 or 2-inf; may be given again", "ID+BIAS")
      ->group(group);
  std::vector<std::string> names;
  for (const SamplerStep step : p.steps) names.emplace_back(to_string(step));
  app.add_option("--samplers", options.steps,
                 fmt::format("the samplers and their order (default \"{}\")", fmt::join(names, ";")))
      ->type_name("NAMES")
      ->group(group);
  app.add_option("--sampler-seq,--sampling-seq", options.step_letters,
                 "the samplers as letters, e.g. edskypmxt")
      ->type_name("LETTERS")
      ->group(group);
}

void add_generation_options(CLI::App& app, GenerationOptions& options) {
  add_switch(app, "-e,--escape", options.sampling.escape,
             "process the escapes \\n \\r \\t \\\\ \\' \\\" \\xHH in prompts and strings of the command "
             "line, but not in files (default)")
      ->group("Text");
  add_model_options(app, options.model);
  add_context_options(app, options.context);
  add_sampling_options(app, options.sampling);
  add_verbosity_options(app, options.talk);
  add_verbose_option(app, options.talk);
}

void replace_escapes(SamplingOptions& options) {
  options.dry_breakers = read_escapes(options.dry_breakers, options.escape);
}

SamplerParams sampler_params(const SamplingOptions& options) try {
  SamplerParams params = options.params;
  if (!options.seed.empty() && options.seed != "-1") {
    const char* end = options.seed.data() + options.seed.size();
    const auto [rest, error] = std::from_chars(options.seed.data(), end, params.seed);
    if (error != std::errc{} || rest != end) {
      throw UsageError(fmt::format("--seed: '{}' is not a number from 0 to 2^64-2, or -1", options.seed));
    }
  }
  for (const std::string& text : options.logit_biases) params.logit_bias.push_back(parse_logit_bias(text));
  if (!options.steps.empty() && !options.step_letters.empty()) {
    throw UsageError("--samplers and --sampler-seq both set the order; give one of them");
  }
  if (!options.step_letters.empty())
    params.steps = read_steps("--sampler-seq", options.step_letters, parse_sampler_letters);
  if (!options.steps.empty()) params.steps = read_steps("--samplers", options.steps, parse_sampler_steps);
  if (!options.dry_breakers.empty()) {
    params.dry_breakers = options.dry_breakers;
    std::erase(*params.dry_breakers, "none");
  }
  return params;
} catch (const Error& error) {
  throw UsageError(error.what());
}

SamplerParams sampler_params(const SamplingOptions& options, const Tokenizer& tokenizer) try {
  SamplerParams params = sampler_params(options);
  const Sampler checked(params, tokenizer);
  return params;
} catch (const Error& error) {
  throw UsageError(error.what());  // The invalid values came from the command line.
}

std::string read_text(const std::string& path) {
  std::string text = read_bytes(path);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw Error(ErrorCode::kInvalidFile,
                fmt::format("{} is UTF-16; write it as UTF-8, e.g. with: iconv -f UTF-16 -t UTF-8",
                            path == "-" ? "the standard input" : path));
  drop_byte_order_mark(text);
  return text;
}

std::string read_bytes(const std::string& path) {
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) throw Error(ErrorCode::kNotFound, fmt::format("cannot open '{}'", path));
  std::string text;
  char block[1 << 16];
  std::size_t n = 0;
  do {
    n = std::fread(block, 1, sizeof block, file);
    text.append(block, n);
  } while (n == sizeof block);
  const bool failed = std::ferror(file) != 0;
  if (file != stdin) std::fclose(file);
  if (failed) throw Error(ErrorCode::kIo, fmt::format("cannot read '{}'", path));
  return text;
}

}  // namespace weft::cli
