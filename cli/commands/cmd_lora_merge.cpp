// weft lora-merge: merge LoRA adapters into a model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/counted.h"
#include "commands/command.h"
#include "files/hub_models.h"
#include "files/json_output.h"
#include "options/adapter_options.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/interrupt.h"
#include "terminal/text_format.h"
#include "weft/error.h"
#include "weft/merge_adapters.h"

namespace weft::cli {
namespace {

struct LoraMergeOptions {
  Verbosity talk;
  std::string model;
  AdapterOptions adapters;
  std::string output;
  std::string type;
  int n_threads = 0;
  bool json = false;
};

MergeAdaptersParams params_of(const LoraMergeOptions& options) {
  MergeAdaptersParams params{.n_threads = options.n_threads};
  for (const NamedAdapter& adapter : named_adapters(options.adapters))
    params.adapters.push_back({adapter.file.path, adapter.scale});
  if (params.adapters.empty())
    throw UsageError("no adapter: give one with --lora FILE or --lora-scaled FILE SCALE");
  if (options.type.empty()) return params;
  params.type = dtype_from_name(options.type);
  if (!params.type)
    throw UsageError(fmt::format("--type: unknown type '{}'; write e.g. f16 or q8_0", options.type));
  return params;
}

int run(const LoraMergeOptions& options) {
  MergeAdaptersParams params = params_of(options);
  if (options.output.empty()) throw UsageError("no result file: name one with -o FILE");
  const bool replaces = is_there(options.output);
  const InterruptGuard interrupt;
  Progress progress(options.talk, "merging");
  params.progress = [&](double fraction) {
    progress.update(fraction);
    return !interrupt.requested();
  };
  const std::vector<QuantizedTensor> changed =
      merge_adapters(find_model(options.model, options.talk), options.output, params);
  progress.done();
  if (replaces) note_replaced(options.talk, options.output);
  const auto n_repacked = std::count_if(changed.begin(), changed.end(), [](const QuantizedTensor& tensor) {
    return info(tensor.from).kind == DTypeKind::kQuantised && info(tensor.to).kind == DTypeKind::kQuantised;
  });
  if (options.json) {
    Json tensors = Json::array();
    for (const QuantizedTensor& tensor : changed)
      tensors.push_back(
          {{"name", tensor.name}, {"from", info(tensor.from).name}, {"to", info(tensor.to).name}});
    print(to_text({{"to", options.output}, {"adapters", params.adapters.size()}, {"tensors", tensors}}, 2));
    return kExitOk;
  }
  if (n_repacked > 0)
    print(
        fmt::format("{} matrices were quantized before and are quantized again, which loses accuracy; "
                    "--type f16 avoids that\n",
                    n_repacked));
  print(fmt::format("wrote {}: {} of {} added to\n", options.output,
                    base::counted(changed.size(), "matrix", "matrices"),
                    base::counted(params.adapters.size(), "adapter")));
  return kExitOk;
}

std::function<int()> prepare_lora_merge(CLI::App& app) {
  auto options = std::make_shared<LoraMergeOptions>();
  app.add_option("-m,--model", options->model, "a GGUF file, or a name in the model cache")
      ->type_name("FILE")
      ->group("Files");
  add_adapter_files(app, options->adapters, "Files");
  app.add_option("-o,--output,--output-file", options->output, "the GGUF file to write")
      ->type_name("FILE")
      ->group("Files");
  app.add_option("--type", options->type, "type of the changed matrices (default: each keeps its type)")
      ->type_name("TYPE")
      ->group("Work");
  add_size(app, "-t,--threads", options->n_threads, {0, kMaxThreads}, "threads (default 0: all cores)")
      ->group("Work");
  add_switch(app, "--json", options->json, "print one JSON object")->group("Output");
  add_verbosity_options(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kLoraMergeCommand = {
    "lora-merge", "[options] -m FILE --lora FILE -o FILE", "merge LoRA adapters into a model",
    "Adds scale * alpha / rank * B A of each LoRA adapter to the model's matrices, and writes a new model.\n"
    "It gives the results of the model with the adapters, at the speed of the model alone. The file is\n"
    "written completely or not at all; an existing file is replaced.\n"
    "\n"
    "Examples:\n"
    "  weft lora-merge -m model-f16.gguf --lora adapter.gguf -o merged.gguf\n"
    "  weft lora-merge -m model-q4_k_m.gguf --lora a.gguf --lora-scaled b.gguf 0.5 -o merged.gguf --type "
    "f16\n",
    prepare_lora_merge};

}  // namespace weft::cli
