// weft quantize: a model's file in smaller types.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "command.h"
#include "interrupt.h"
#include "json_output.h"
#include "model_cache.h"
#include "options.h"
#include "text_format.h"
#include "weft/error.h"
#include "weft/quantize.h"

namespace weft::cli {
namespace {

struct QuantizeOptions {
  Talk talk;
  std::vector<std::string> words;
  std::vector<std::string> rules;
  std::string rules_file, output_type, embedding_type;
  QuantizeParams params;
  bool dry_run = false;
  bool json = false;
};

DType type_of(const std::string& option, const std::string& word) {
  if (const auto type = dtype_from_name(word)) return *type;
  std::string known;
  for (const DTypeInfo& type : all_dtypes())
    if (type.kind != DTypeKind::kInteger) known += (known.empty() ? "" : ", ") + std::string(type.name);
  throw UsageError(fmt::format("{}: '{}' is no type; known are {}", option, word, known));
}

QuantizeRule rule_of(const std::string& option, const std::string& text) {
  const auto at = text.rfind('=');
  if (at == std::string::npos || at == 0)
    throw UsageError(fmt::format("{}: '{}' is no PATTERN=TYPE, as ffn_down=q6_K", option, text));
  return {text.substr(0, at), type_of(option, text.substr(at + 1))};
}

struct Words {
  std::filesystem::path from, to;
  std::string mix;
};

const QuantizeMix* find_mix(const std::string& word) {
  for (const QuantizeMix& mix : quantize_mixes())
    if (CLI::detail::to_lower(std::string(mix.name)) == CLI::detail::to_lower(word)) return &mix;
  return nullptr;
}

bool is_mix(const std::string& word) { return find_mix(word) != nullptr; }

Words words_of(const QuantizeOptions& options) {
  const std::vector<std::string>& words = options.words;
  if (words.size() < 2 || words.size() > 3)
    throw UsageError(
        "give a model, perhaps the result's file, and a mix: weft quantize model-f16.gguf Q4_K_M");
  Words result{find_model(words[0]), {}, words.back()};
  if (!is_mix(result.mix)) {
    std::vector<std::string> names;
    for (const QuantizeMix& mix : quantize_mixes()) names.emplace_back(mix.name);
    throw UsageError(fmt::format("'{}' is no mix; known are {}", result.mix, fmt::join(names, ", ")));
  }
  if (words.size() == 3) {
    result.to = words[1];
    return result;
  }
  // model-f16.gguf becomes model-Q4_K_M.gguf, and so does model-f16-00001-of-00003.gguf.
  std::string stem = result.from.stem().string();
  constexpr std::size_t kPartSuffix = std::string_view("-00001-of-00003").size();
  if (stem.size() > kPartSuffix && stem.find("-of-", stem.size() - kPartSuffix) == stem.size() - 9)
    stem.resize(stem.size() - kPartSuffix);
  if (const auto at = stem.find_last_of("-."); at != std::string::npos && is_mix(stem.substr(at + 1)))
    stem.resize(at);
  std::string mix = result.mix;
  std::transform(mix.begin(), mix.end(), mix.begin(), [](unsigned char c) { return std::toupper(c); });
  // Of a model by its name the result comes here, not into the cache.
  const bool by_name = !std::filesystem::exists(words[0]);
  result.to =
      (by_name ? std::filesystem::path() : result.from.parent_path()) / fmt::format("{}-{}.gguf", stem, mix);
  return result;
}

QuantizeParams params_of(const QuantizeOptions& options, const std::string& mix) {
  QuantizeParams params = options.params;
  params.mix = mix;
  for (const std::string& rule : options.rules) params.rules.push_back(rule_of("--tensor-type", rule));
  if (!options.rules_file.empty()) {
    const std::string text = read_text(options.rules_file);
    for (const std::string& line : CLI::detail::split(text, '\n')) {
      const std::string rule = CLI::detail::trim_copy(line);
      if (!rule.empty() && rule[0] != '#') params.rules.push_back(rule_of("--tensor-type-file", rule));
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
  return {{"from", words.from.string()},
          {"to", dry_run ? Json() : Json(words.to.string())},
          {"mix", result.mix},
          {"bytes_from", result.bytes_from},
          {"bytes_to", result.bytes_to},
          {"bits_per_weight", result.bits_per_weight},
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
    out +=
        fmt::format("{} tensors have rows that are no multiple of their type's block, and got another type\n",
                    n_fallbacks);
  return out;
}

int run(const QuantizeOptions& options) {
  const Words words = words_of(options);
  QuantizeParams params = params_of(options, words.mix);
  if (find_mix(words.mix)->wants_importance && params.importance.empty())
    note(options.talk, fmt::format("weft: {} without --imatrix loses much more than with one", words.mix));
  QuantizeResult result;
  if (options.dry_run) {
    result = plan_quantize(words.from, params);
  } else {
    const InterruptGuard interrupt;
    Progress progress(options.talk, "quantising");
    params.progress = [&](double fraction) {
      progress.update(fraction);
      return !interrupt.requested();
    };
    result = quantize(words.from, words.to, params);
  }
  if (options.json) {
    print(to_text(to_json(result, words, options.dry_run), 2));
  } else {
    print(to_report(result, options.dry_run || options.talk.verbose));
    if (!options.dry_run) print(fmt::format("wrote {}\n", words.to.string()));
  }
  return kExitOk;
}

std::function<int()> prepare(CLI::App& app) {
  auto options = std::make_shared<QuantizeOptions>();
  app.add_option("FILE", options->words, "the model, perhaps the result's file, and the mix")
      ->type_name("FILE");
  const std::string group = "Types";
  app.add_option("--imatrix", options->params.importance, "how much columns matter: a file of llama-imatrix")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--tensor-type", options->rules,
         "PATTERN=TYPE: matrices whose names the regular expression is found in; the first that fits wins")
      ->type_name("PATTERN=TYPE")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--tensor-type-file", options->rules_file, "such rules, one a line")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--output-tensor-type", options->output_type, "the head's type")
      ->type_name("TYPE")
      ->group(group);
  app.add_option("--token-embedding-type", options->embedding_type, "the type of the table of embeddings")
      ->type_name("TYPE")
      ->group(group);
  add_switch(app, "--leave-output-tensor", options->params.keep_output, "leave the head as it is")
      ->group(group);
  add_switch(app, "--pure", options->params.pure, "all matrices in the mix's type")->group(group);
  add_switch(app, "--allow-requantize", options->params.requantize,
             "pack again what is quantised already, which loses more")
      ->group(group);
  const std::string work = "Work";
  add_switch(app, "--dry-run", options->dry_run, "show types and sizes, and write nothing")->group(work);
  add_size(app, "-t,--threads", options->params.n_threads, {0, kMaxThreads},
           "threads (default 0: as many as there are cores)")
      ->group(work);
  add_switch(app, "--json", options->json, "print one JSON object")->group("Output");
  add_talk_options(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kQuantizeCommand = {
    "quantize", "[options] FILE [RESULT] MIX", "a model's file in smaller types",
    "Writes the model with its matrices in other types: Q4_K_M is the usual choice, Q8_0 loses next to "
    "nothing,\n"
    "and types below three bits need --imatrix to be of use. The result appears whole or not at all.\n"
    "\n"
    "Mixes: F32, BF16, F16, Q8_0, Q6_K, Q5_K_M, Q5_1, Q5_K_S, Q5_0, Q4_K_M, Q4_1, Q4_K_S, Q4_0, IQ4_NL, "
    "NVFP4,\n"
    "IQ4_XS, MXFP4, Q3_K_L, Q3_K_M, IQ3_M, IQ3_S, Q3_K_S, IQ3_XS, IQ3_XXS, Q2_K, Q2_K_S, IQ2_M, IQ2_S, "
    "IQ2_XS,\n"
    "TQ2_0, IQ2_XXS, IQ1_M, TQ1_0, IQ1_S, Q1_0\n"
    "\n"
    "Examples:\n"
    "  weft quantize model-f16.gguf Q4_K_M                    writes model-Q4_K_M.gguf\n"
    "  weft quantize --dry-run model-f16.gguf IQ3_M\n"
    "  weft quantize --imatrix imatrix.gguf --tensor-type ffn_down=q6_K model-f16.gguf small.gguf IQ2_M\n",
    prepare};

}  // namespace weft::cli
