// weft quantize: a model's file in smaller types.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/counted.h"
#include "commands/command.h"
#include "files/hub_models.h"
#include "files/json_output.h"
#include "options/arguments.h"
#include "options/option_table.h"
#include "options/options.h"
#include "terminal/interrupt.h"
#include "terminal/text_format.h"
#include "weft/error.h"
#include "weft/quantize.h"

namespace weft::cli {
namespace {

struct QuantizeOptions {
  Verbosity talk;
  std::vector<std::string> words;
  std::vector<std::string> rules;
  std::string rules_file, output_type, embedding_type, left_out_layers;
  std::vector<std::string> metadata;
  QuantizeParams params;
  bool dry_run = false;
  bool json = false;
};

DType type_of(const std::string& option, const std::string& word) {
  if (const auto type = dtype_from_name(word)) return *type;
  std::string known;
  for (const DTypeInfo& type : all_dtypes())
    if (type.kind != DTypeKind::kInteger) known += (known.empty() ? "" : ", ") + std::string(type.name);
  throw UsageError(fmt::format("{}: unknown type '{}'; known are {}", option, word, known));
}

QuantizeRule rule_of(const std::string& option, const std::string& text) {
  const auto at = text.rfind('=');
  if (at == std::string::npos || at == 0)
    throw UsageError(fmt::format("{}: '{}' is not PATTERN=TYPE, e.g. ffn_down=q6_K", option, text));
  return {text.substr(0, at), type_of(option, text.substr(at + 1))};
}

template <typename T>
std::optional<T> number_of(const std::string& text) {
  T number = {};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && rest == end ? std::optional(number) : std::nullopt;
}

std::vector<int> layers_of(const std::string& text) {
  std::vector<int> layers;
  for (const std::string& word : CLI::detail::split(text, ',')) {
    const std::optional<int> layer = number_of<int>(CLI::detail::trim_copy(word));
    if (!layer)
      throw UsageError(fmt::format("--prune-layers: '{}' is not a list of layers, e.g. 4,5,9", text));
    layers.push_back(*layer);
  }
  return layers;
}

MetadataChange change_of(const std::string& text) {
  const auto equals = text.find('=');
  const auto colon = text.find(':', std::min(equals, text.size()));
  if (equals != std::string::npos && equals > 0 && colon != std::string::npos) {
    const std::string key = text.substr(0, equals), type = text.substr(equals + 1, colon - equals - 1);
    const std::string value = text.substr(colon + 1);
    if (type == "str") return {key, value};
    if (type == "bool" && (value == "true" || value == "false")) return {key, value == "true"};
    if (const auto number = number_of<std::int64_t>(value); type == "int" && number) return {key, *number};
    if (const auto number = number_of<double>(value); type == "float" && number) return {key, *number};
  }
  throw UsageError(
      fmt::format("--override-kv: '{}' is not KEY=TYPE:VALUE with a type int, float, bool or str", text));
}

struct Words {
  std::filesystem::path from, to;
  std::string mix;  // As quantize_mixes() has it.
  bool copy = false;
  std::optional<int> n_threads = {};
};

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

bool is_copy(const std::string& word) { return CLI::detail::to_lower(word) == "copy"; }

bool is_mix(const std::string& word) { return is_copy(word) || find_quantize_mix(word) != nullptr; }

Words words_of(const QuantizeOptions& options) {
  std::vector<std::string> words = options.words;
  std::optional<int> n_threads;
  if (words.size() > 2 && is_mix(words[words.size() - 2])) n_threads = number_of<int>(words.back());
  if (n_threads) words.pop_back();
  if (words.size() < 2 || words.size() > 3)
    throw UsageError(
        "give a model, optionally the result's file, and a quantization type: weft quantize model-f16.gguf "
        "Q4_K_M");
  if (!is_mix(words.back())) {
    std::vector<std::string> names;
    for (const QuantizeMix& mix : quantize_mixes()) names.emplace_back(mix.name);
    throw UsageError(fmt::format("unknown quantization type '{}'{}; known are {}", words.back(),
                                 did_you_mean(upper_case(words.back()), names), fmt::join(names, ", ")));
  }
  Words result{
      .from = find_model(words[0], options.talk), .copy = is_copy(words.back()), .n_threads = n_threads};
  result.mix = result.copy ? "COPY" : find_quantize_mix(words.back())->name;
  if (words.size() == 3) {
    result.to = words[1];
    return result;
  }
  // model-f16.gguf becomes model-Q4_K_M.gguf, and so does model-f16-00001-of-00003.gguf.
  std::string stem = result.from.stem().string();
  constexpr std::size_t kPartSuffix = std::string_view("-00001-of-00003").size();
  if (stem.size() > kPartSuffix && stem.find("-of-", stem.size() - kPartSuffix) == stem.size() - 9)
    stem.resize(stem.size() - kPartSuffix);
  // A number at the end, as in llama-2, is a part of the name.
  if (const auto at = stem.find_last_of("-.");
      at != std::string::npos && is_mix(stem.substr(at + 1)) && !number_of<int>(stem.substr(at + 1)))
    stem.resize(at);
  // The result of a model from the cache goes to the current folder, not into the cache.
  const bool by_name = !std::filesystem::exists(words[0]);
  result.to = (by_name ? std::filesystem::path() : result.from.parent_path()) /
              fmt::format("{}-{}.gguf", stem, result.mix);
  return result;
}

QuantizeParams params_of(const QuantizeOptions& options, const Words& words) {
  QuantizeParams params = options.params;
  if (!words.copy) params.mix = words.mix;
  params.keep_types = words.copy;
  params.n_threads = words.n_threads.value_or(params.n_threads);
  if (!options.left_out_layers.empty()) params.left_out_layers = layers_of(options.left_out_layers);
  for (const std::string& change : options.metadata) params.metadata.push_back(change_of(change));
  for (const std::string& rule : options.rules) params.rules.push_back(rule_of("--tensor-type", rule));
  if (!options.rules_file.empty()) {
    const std::string text = read_text(options.rules_file);
    for (const std::string& line : CLI::detail::split(text, '\n')) {
      if (CLI::detail::trim_copy(line).starts_with('#')) continue;
      std::istringstream rules(line);
      for (std::string rule; rules >> rule;) params.rules.push_back(rule_of("--tensor-type-file", rule));
    }
  }
  if (!options.output_type.empty()) params.output_type = type_of("--output-tensor-type", options.output_type);
  if (!options.embedding_type.empty())
    params.embedding_type = type_of("--token-embedding-type", options.embedding_type);
  return params;
}

Json to_json(const QuantizeResult& result, const Words& words, bool dry_run) {
  Json tensors = Json::array();
  for (const QuantizedTensor& tensor : result.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"shape", tensor.shape},
                       {"from", info(tensor.from).name},
                       {"to", info(tensor.to).name},
                       {"bytes_from", tensor.bytes_from},
                       {"bytes_to", tensor.bytes_to}});
  Json files = Json::array();
  for (const std::filesystem::path& file : result.files) files.push_back(file.string());
  return {{"from", words.from.string()},
          {"to", dry_run ? Json() : Json(words.to.string())},
          {"files", std::move(files)},
          {"mix", result.mix},
          {"bytes_from", result.bytes_from},
          {"bytes_to", result.bytes_to},
          {"bits_per_weight", result.bits_per_weight},
          {"notes", result.notes},
          {"tensors", std::move(tensors)}};
}

std::string to_report(const QuantizeResult& result, bool all) {
  std::string out;
  std::vector<std::vector<std::string>> rows;
  std::map<std::string, std::pair<int, std::uint64_t>> types;
  int n_fallbacks = 0;
  for (const QuantizedTensor& tensor : result.tensors) {
    auto& [n, bytes] = types[std::string(info(tensor.to).name)];
    ++n;
    bytes += tensor.bytes_to;
    n_fallbacks += tensor.wanted.has_value();
    rows.push_back({"  " + tensor.name, fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
                    std::string(info(tensor.from).name), std::string(info(tensor.to).name),
                    bytes_text(tensor.bytes_from), bytes_text(tensor.bytes_to)});
  }
  if (all) out += table_text(rows) + "\n";
  rows.clear();
  for (const auto& [type, sum] : types)
    rows.push_back({"  " + type, fmt::format("{}", sum.first), bytes_text(sum.second)});
  out += table_text(rows);
  out += fmt::format("{}: {} to {}, {:.2f} bits a weight\n", result.mix, bytes_text(result.bytes_from),
                     bytes_text(result.bytes_to), result.bits_per_weight);
  if (n_fallbacks > 0)
    out += fmt::format("{} got another type: the length of rows is not a multiple of the type's block\n",
                       base::counted(n_fallbacks, "tensor"));
  return out;
}

int run(const QuantizeOptions& options) {
  const Words words = words_of(options);
  QuantizeParams params = params_of(options, words);
  if (!words.copy && find_quantize_mix(words.mix)->wants_importance && params.importance.empty())
    note(options.talk, fmt::format("weft: note: {} loses much less accuracy with --imatrix", words.mix));
  QuantizeResult result;
  if (options.dry_run) {
    result = plan_quantize(words.from, params, words.to);
  } else {
    const bool replaces = is_there(words.to);
    const InterruptGuard interrupt;
    Progress progress(options.talk, "quantizing");
    params.progress = [&](double fraction) {
      progress.update(fraction);
      return !interrupt.requested();
    };
    result = quantize(words.from, words.to, params);
    if (replaces) note_replaced(options.talk, words.to);
  }
  for (const std::string& text : result.notes) note(options.talk, "weft: note: " + text);
  if (options.json) {
    print(to_text(to_json(result, words, options.dry_run), 2));
  } else {
    print(to_report(result, options.dry_run || options.talk.verbose));
    for (const std::filesystem::path& file : result.files)
      if (!options.dry_run) print(fmt::format("wrote {}\n", file.string()));
  }
  return kExitOk;
}

std::function<int()> prepare_quantize(CLI::App& app) {
  auto options = std::make_shared<QuantizeOptions>();
  app.add_option("FILE", options->words,
                 "the model, the result's file (optional), the quantization type, and threads (optional)")
      ->type_name("FILE");
  const std::string group = "Types";
  app.add_option("--imatrix", options->params.importance,
                 "importance matrix, a file of 'weft imatrix' or llama-imatrix")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--include-weights", options->params.important,
                 "use the importance matrix only for tensors whose names contain TEXT; may be given again")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--exclude-weights", options->params.unimportant,
                 "do not use the importance matrix for tensors whose names contain TEXT; may be given again")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option(
         "--tensor-type", options->rules,
         "type of matrices whose names match the regular expression; may be given again, the first match "
         "counts")
      ->type_name("PATTERN=TYPE")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--tensor-type-file", options->rules_file,
                 "file with --tensor-type rules, separated by spaces or newlines; # begins a comment line")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--output-tensor-type", options->output_type, "type of the output matrix")
      ->type_name("TYPE")
      ->group(group);
  app.add_option("--token-embedding-type", options->embedding_type, "type of the token embeddings")
      ->type_name("TYPE")
      ->group(group);
  add_switch(app, "--leave-output-tensor", options->params.keep_output, "keep the output matrix as it is")
      ->group(group);
  add_switch(app, "--pure", options->params.pure, "give all matrices the same type")->group(group);
  add_switch(app, "--allow-requantize", options->params.requantize,
             "quantize tensors that are quantized already, which loses more accuracy")
      ->group(group);
  const std::string model = "Model";
  app.add_option("--prune-layers", options->left_out_layers,
                 "remove these layers, e.g. 4,5,9; later layers are renumbered")
      ->type_name("LAYERS")
      ->group(model);
  app.add_option("--override-kv", options->metadata,
                 "set a metadata key; TYPE is int, float, bool or str; may be given again")
      ->type_name("KEY=TYPE:VALUE")
      ->allow_extra_args(false)
      ->group(model);
  add_switch(app, "--keep-split", options->params.keep_split,
             "write the result of a split model in as many parts")
      ->group(model);
  const std::string work = "Work";
  add_switch(app, "--dry-run", options->dry_run,
             "print the types and sizes of the result, without writing it")
      ->group(work);
  add_size(app, "-t,--threads", options->params.n_threads, {0, kMaxThreads}, "threads (default 0: all cores)")
      ->group(work);
  add_switch(app, "--json", options->json, "print one JSON object")->group("Output");
  add_verbosity_options(app, options->talk);
  add_verbose_option(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kQuantizeCommand = {
    "quantize", "[options] FILE [RESULT] MIX [THREADS]", "quantize a model to smaller types",
    "Writes a model with its matrices in another type. Q4_K_M is the usual choice; Q8_0 loses almost\n"
    "nothing. Types below three bits need --imatrix. COPY keeps all types unless a rule sets another. The\n"
    "result is written completely or not at all; an existing file is replaced. MIX may also be\n"
    "llama-quantize's number of a type: 2 is Q4_0, and 15 is Q4_K_M.\n"
    "\n"
    "Types: F32, BF16, F16, Q8_0, Q6_K, Q5_K_M, Q5_1, Q5_K_S, Q5_0, Q4_K_M, Q4_1, Q4_K_S, Q4_0, IQ4_NL,\n"
    "NVFP4, IQ4_XS, MXFP4, Q3_K_L, Q3_K_M, IQ3_M, IQ3_S, Q3_K_S, IQ3_XS, IQ3_XXS, Q2_K, Q2_K_S, IQ2_M,\n"
    "IQ2_S, IQ2_XS, TQ2_0, IQ2_XXS, IQ1_M, TQ1_0, IQ1_S, Q1_0\n"
    "\n"
    "Examples:\n"
    "  weft quantize model-f16.gguf Q4_K_M                    writes model-Q4_K_M.gguf\n"
    "  weft quantize --dry-run model-f16.gguf IQ3_M\n"
    "  weft quantize --imatrix imatrix.gguf --tensor-type ffn_down=q6_K model-f16.gguf small.gguf IQ2_M\n"
    "  weft quantize --keep-split model-f16-00001-of-00003.gguf model-q4 Q4_K_M 8\n"
    "  weft quantize --prune-layers 20,21 model-q8_0.gguf shorter.gguf COPY\n",
    prepare_quantize};

}  // namespace weft::cli
