// weft convert: convert a Hugging Face folder to GGUF.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "base/counted.h"
#include "commands/command.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/interrupt.h"
#include "terminal/terminal.h"
#include "terminal/text_format.h"
#include "weft/convert.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

struct ConvertOptions {
  Verbosity talk;
  std::string folder, output;
  ConvertParams params;
  bool list = false;
};

int run(const ConvertOptions& options) {
  if (options.list) {
    for (const std::string_view name : convertible_architectures()) print(fmt::format("{}\n", name));
    return kExitOk;
  }
  if (options.folder.empty())
    throw UsageError("give a folder with config.json and model.safetensors, or with adapter_config.json");
  std::filesystem::path to = options.output;
  if (to.empty()) {
    const std::filesystem::path folder = std::filesystem::absolute(options.folder).lexically_normal();
    to = (options.params.mmproj ? "mmproj-" : "") +
         (folder.has_filename() ? folder : folder.parent_path()).filename().string() + ".gguf";
  }
  const bool replaces = is_there(to);
  const InterruptGuard interrupt;
  Progress progress(options.talk, "converting");
  ConvertParams params = options.params;
  params.progress = [&](double fraction) {
    progress.update(fraction);
    return !interrupt.requested();
  };
  const ConvertResult result = convert(options.folder, to, params);
  for (const std::string& line : result.notes) note(options.talk, line);
  if (replaces) note_replaced(options.talk, to);
  print(fmt::format("wrote {}: {}, {}, {}, {}\n", to.string(), result.architecture, result.type,
                    base::counted(result.n_tensors, "tensor"), bytes_text(result.bytes)));
  return kExitOk;
}

std::function<int()> prepare_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  app.add_option("FOLDER", options->folder, "the model's folder")->type_name("FOLDER");
  app.add_option("-o,--output", options->output,
                 "the GGUF file to write (default: the folder's name with .gguf, in the current folder)")
      ->type_name("FILE");
  app.add_option(
         "--type", options->params.type,
         "type of the matrices: f32, f16, bf16, q8_0, or auto for the type in the folder (default auto)")
      ->type_name("TYPE");
  app.add_option("--pre", options->params.pre_tokenizer,
                 "pre-tokenizer, if weft does not recognize the one in tokenizer.json, e.g. llama-bpe")
      ->type_name("NAME");
  app.add_option("--base", options->params.base, "folder of the base model, if FOLDER holds a PEFT adapter")
      ->type_name("FOLDER");
  add_switch(app, "--mmproj", options->params.mmproj,
             "write the image encoder, a file for --mmproj, instead of the language model");
  add_switch(app, "--list", options->list, "print the architectures that weft converts, and exit");
  add_verbosity_options(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kConvertCommand = {
    "convert", "[options] FOLDER", "convert a Hugging Face folder to GGUF",
    "Writes the model in a folder (config.json, tokenizer.json, and one or several safetensors files) as\n"
    "GGUF. A folder with a PEFT LoRA adapter (adapter_config.json) gives a file for --lora. The file is\n"
    "written completely or not at all; an existing file is replaced. Other commands accept a folder too, as\n"
    "in 'weft run -m FOLDER': they convert it once and keep the result in the cache.\n"
    "\n"
    "Examples:\n"
    "  weft convert SmolLM2-135M                              writes SmolLM2-135M.gguf\n"
    "  weft convert --type q8_0 -o small.gguf SmolLM2-135M\n"
    "  weft convert --mmproj gemma-3-4b-it                    writes mmproj-gemma-3-4b-it.gguf\n"
    "  weft convert --base SmolLM2-135M my-lora               writes my-lora.gguf, for --lora\n"
    "  weft convert --list\n",
    prepare_convert};

}  // namespace weft::cli
