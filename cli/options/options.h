#pragma once
// Options of several subcommands, and the conversion to models, contexts and samplers.
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "options/adapter_options.h"
#include "options/arguments.h"
#include "options/fit_options.h"
#include "options/option_types.h"
#include "terminal/terminal.h"
#include "weft/context.h"
#include "weft/model.h"
#include "weft/sampler.h"
#include "weft/transcriber.h"

namespace weft::cli {

class InterruptGuard;

/// A larger number of threads is a typo.
inline constexpr int kMaxThreads = 1024;

/// The words of --color.
const std::map<std::string, ColorMode>& color_modes();
/// -q, --progress and --color, for commands that load or write files.
void add_verbosity_options(CLI::App& app, Verbosity& talk);
/// -v, for commands with verbose output.
void add_verbose_option(CLI::App& app, Verbosity& talk);

struct ModelOptions {
  std::string model;
  std::string pre_tokenizer;
  std::string chat_template;  ///< A Jinja template that replaces the file's; empty: the file's.
  CpuIsa isa = CpuIsa::kBest;
  int n_threads = 0;
  bool repack = true;
  bool pack_cache = true;
  int pack_cache_gib = 64;
  AdapterOptions adapters;
  PlacementParams placement;
  std::optional<bool> split_rows = false;  ///< --split-mode; nothing: the faster one by formula.
  std::string devices, shares, n_layers;
  std::string_view layers_option = "--gpu-layers";  ///< The option of `n_layers`, for messages.
  int n_cpu_moe = 0;
  std::vector<std::uint64_t> fit_target;  ///< As parse_fit_target() returns it; empty: the default.
  std::vector<std::string> pins;
  std::vector<std::string> lost;  ///< Devices that have been lost since the program began.
};
/// The number of layers on devices; nothing: the number that fits. Messages name `option`. Throws UsageError.
std::optional<int> parse_layers(std::string_view option, const std::string& text);
/// The words between commas.
std::vector<std::string> split_at_commas(std::string_view list);
/// The placement that the options ask for, without lost devices. Throws UsageError.
PlacementParams placement_params(const ModelOptions& options);
/// The CPU and the backends in the program's folder and in the folders of WEFT_BACKENDS.
std::shared_ptr<Registry> find_all_backends();
TranscriberParams transcriber_params(const ModelOptions& options);
/// If the options do not set a split mode, sets the faster one in `params`. Returns the reason as a message;
/// "" without a choice.
std::string choose_split(const std::filesystem::path& path, const ModelOptions& options, int n_texts,
                         ModelParams& params);
/// Notes on stderr if the options ask for layers on GPUs and there is none. `params` is the placement that
/// they ask for.
void note_missing_gpu(const ModelOptions& options, const PlacementParams& params, const Registry& registry,
                      const Verbosity& talk);
void add_device_options(CLI::App& app, ModelOptions& options);
/// --pre, for commands that read a vocabulary.
void add_pre_tokenizer_option(CLI::App& app, std::string& name, const std::string& group);
/// Adds the device options, --pre and the options of models.
void add_model_options(CLI::App& app, ModelOptions& options);

struct LoadedModel {
  std::filesystem::path path;
  std::shared_ptr<const Model> model;
  PlacementReport placed = {};
  double load_ms = 0.0;
};
struct ContextOptions {
  int n_ctx = 0;
  int n_batch = 0;
  int n_ubatch = 0;
  int n_source = 0;     ///< 0: the default.
  int n_outputs = 0;    ///< Set by commands that want more logits than the default. 0: the default.
  int n_texts = 1;      ///< Expected number of concurrent sequences, for the choice of layouts.
  int n_sequences = 1;  ///< Set by commands.
  CacheType k_type = CacheType::kAuto;
  CacheType v_type = CacheType::kAuto;
  bool rotate_cache = true;
  int window_rewind = ContextParams{}.window_rewind;
  bool full_windows = false;
  int state_rewind = 0;  ///< Not an option: drafts need it (n_draft_states).
};
/// Adds only the options of cache types and of their rotation.
void add_cache_type_options(CLI::App& app, ContextOptions& options, const std::string& group);
void add_context_options(CLI::App& app, ContextOptions& options);
/// "f16", ... Throws UsageError that names the option.
CacheType parse_cache_type(const std::string& option, const std::string& text);
std::string to_string(CacheType type);
ContextParams context_params(const ContextOptions& options, const ModelOptions& model);

/// Throws Error kUnsupported if the model needs an encoder input, which the command does not have.
void refuse_source(const Model& model, std::string_view command);

/// Finds the model's file, which becomes `options.model`, and reads its description. Without a description
/// load_model() says why.
ModelInfo find_and_describe(ModelOptions& options, const Verbosity& talk, const InterruptGuard& interrupt);

/// Loads the model with a progress bar. Ctrl-C ends it with Error kCancelled. The model is spread over
/// devices so that such contexts fit, in addition to the memory of `others`.
LoadedModel load_model(const ModelOptions& options, const Verbosity& talk, const InterruptGuard& interrupt,
                       const ContextOptions& context = {}, const OtherMargins& others = {});

/// The parameters that load the model so that such contexts fit into memory with it. Finds the backends.
ModelParams model_params(const ModelOptions& options, const ContextOptions& context, const Verbosity& talk);

struct SamplingOptions {
  bool escape = true;  ///< Replace escapes in strings of the command line (escapes.h).
  SamplerParams params;
  std::string seed;
  std::string steps;         ///< Names.
  std::string step_letters;  ///< llama.cpp's letters.
  std::vector<std::string> dry_breakers;
  std::vector<std::string> logit_biases;  ///< "ID+1.5", "ID-inf"
};
void add_sampling_options(CLI::App& app, SamplingOptions& options);
/// Replaces the escapes in the options' strings, if `escape`.
void replace_escapes(SamplingOptions& options);
/// Throws UsageError for invalid values.
SamplerParams sampler_params(const SamplingOptions& options);
/// The same, checked against a vocabulary.
SamplerParams sampler_params(const SamplingOptions& options, const Tokenizer& tokenizer);

/// Common options of commands that generate.
struct GenerationOptions {
  Verbosity talk;
  ModelOptions model;
  ContextOptions context;
  SamplingOptions sampling;
};
void add_generation_options(CLI::App& app, GenerationOptions& options);

/// Range of --predict: -1 and llama.cpp's -2 both generate until the model ends or the context is full.
inline constexpr Range<int> kPredictRange = {-2, std::numeric_limits<int>::max(), "-1: no limit"};

/// A file's bytes, "-" for the standard input. Throws Error.
std::string read_bytes(const std::string& path);
/// Reads a text file: as read_bytes, without a byte order mark. Throws Error kInvalidFile for UTF-16.
std::string read_text(const std::string& path);

}  // namespace weft::cli
